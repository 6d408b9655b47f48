/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <strings.h>

#include "userspace/common/size.h"
#include "userspace/common/util.h"

/* 10^16 * 2^64 and 100 * 10^16 * 2^50 both stay below 2^128. */
#define FRACTION_DIGITS 16

typedef unsigned __int128 u128;

/* whole_part + numerator / denominator */
struct decimal {
	uint64_t whole_part;
	uint64_t numerator;
	uint64_t denominator;
	bool has_point;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads DIGITS[.DIGITS] and steps over it. */
static int decimal_parse(const char **text, struct decimal *ret)
{
	struct decimal d = { .denominator = 1 };
	const char *p = *text;
	unsigned int digits = 0;

	if (!is_digit(*p))
		return -EINVAL;
	for (; is_digit(*p); p++)
		if (__builtin_mul_overflow(d.whole_part, 10, &d.whole_part) ||
		    __builtin_add_overflow(d.whole_part, *p - '0', &d.whole_part))
			return -ERANGE;
	if (*p == '.') {
		d.has_point = true;
		for (p++; is_digit(*p); p++, digits++) {
			if (digits == FRACTION_DIGITS)
				return -EINVAL;
			d.numerator = d.numerator * 10 + (uint64_t)(*p - '0');
			d.denominator *= 10;
		}
		if (!digits)
			return -EINVAL;
	}
	*text = p;
	*ret = d;
	return 0;
}

/* The power of two of a unit: "" and "B" are 0, "K", "KB" and "KiB" are 10. */
static int unit_parse(const char *text, unsigned int *ret_shift)
{
	static const char units[] = "kmgtp";
	const char *unit;

	if (!*text || !strcasecmp(text, "b")) {
		*ret_shift = 0;
		return 0;
	}
	unit = strchr(units, *text | 0x20);
	if (!unit || !*unit)
		return -EINVAL;
	text++;
	if (*text && strcasecmp(text, "b") && strcasecmp(text, "ib"))
		return -EINVAL;
	*ret_shift = (unsigned int)(unit - units + 1) * 10;
	return 0;
}

static int percent_of(const struct decimal *d, uint64_t whole, uint64_t *ret)
{
	u128 parts;

	if (d->whole_part > 100 || (d->whole_part == 100 && d->numerator))
		return -ERANGE;
	if (d->whole_part == 100) {
		*ret = whole;
		return 0;
	}
	/* whole * (whole_part + n/d) / 100, the remainder of the first division kept */
	parts = (u128)whole * d->whole_part * d->denominator + (u128)whole * d->numerator;
	*ret = (uint64_t)(parts / ((u128)100 * d->denominator));
	return 0;
}

int size_parse(const char *text, uint64_t whole, uint64_t *ret)
{
	struct decimal d;
	unsigned int shift;
	u128 bytes;
	int err;

	if (streq(text, "infinity") || streq(text, "max") || streq(text, "unlimited")) {
		*ret = SIZE_UNLIMITED;
		return 0;
	}
	err = decimal_parse(&text, &d);
	if (err == -ERANGE && strspn(text, "0123456789.") != strlen(text))
		err = unit_parse(text + strspn(text, "0123456789."), &shift) ? -EINVAL : -ERANGE;
	if (err)
		return err;
	if (streq(text, "%"))
		return percent_of(&d, whole, ret);
	err = unit_parse(text, &shift);
	if (err)
		return err;
	if (d.has_point && !shift)
		return -EINVAL;
	bytes = ((u128)d.whole_part << shift) + ((u128)d.numerator << shift) / d.denominator;
	if (bytes >= SIZE_UNLIMITED)
		return -ERANGE;
	*ret = (uint64_t)bytes;
	return 0;
}

const char *size_format(uint64_t bytes, char buf[static SIZE_FORMAT_BYTES])
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB" };
	unsigned int i = 0;
	uint64_t tenths;

	if (bytes == SIZE_UNLIMITED) {
		snprintf(buf, SIZE_FORMAT_BYTES, "infinity");
		return buf;
	}
	if (bytes < 1024) {
		snprintf(buf, SIZE_FORMAT_BYTES, "%" PRIu64 " B", bytes);
		return buf;
	}
	for (;;) {
		u128 unit = (u128)1 << (i + 1) * 10;

		tenths = (uint64_t)(((u128)bytes * 10 + unit / 2) / unit);
		if (tenths < 10240 || i + 1 == ARRAY_SIZE(units))
			break;
		i++;
	}
	snprintf(buf, SIZE_FORMAT_BYTES, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10,
		 units[i]);
	return buf;
}
