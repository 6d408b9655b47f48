/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>

#include "userspace/common/size.h"
#include "userspace/common/util.h"

#define KIB (1ULL << 10)
#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define TIB (1ULL << 40)
#define PIB (1ULL << 50)

/* Percentages below are of this. */
#define WHOLE 1000ULL

static const struct {
	const char *text;
	uint64_t bytes;
} good[] = {
	{ "0", 0 },
	{ "0G", 0 },
	{ "0%", 0 },
	{ "0.0K", 0 },
	{ "1", 1 },
	{ "4096", 4096 },
	{ "4096B", 4096 },
	{ "007", 7 },
	{ "1K", KIB },
	{ "1KB", KIB },
	{ "1KiB", KIB },
	{ "512M", 512 * MIB },
	{ "8G", 8 * GIB },
	{ "8GB", 8 * GIB },
	{ "8GiB", 8 * GIB },
	{ "8g", 8 * GIB },
	{ "8gib", 8 * GIB },
	{ "3T", 3 * TIB },
	{ "2P", 2 * PIB },
	{ "1.5GiB", 3 * GIB / 2 },
	{ "0.5K", 512 },
	{ "1.0009765625K", 1025 },
	{ "0.0009765625K", 1 },
	/* below a whole byte: rounded down */
	{ "0.0009K", 0 },
	{ "0.1K", 102 },
	{ "1.1G", 1181116006 },
	{ "0.3P", 337769972052787 },
	{ "9007199254740993", 9007199254740993 }, /* not a double */
	{ "9007199254740993K", 9007199254740993 * KIB },
	{ "18446744073709551614", UINT64_MAX - 1 },
	{ "16383P", 16383 * PIB },
	{ "40%", 400 },
	{ "100%", 1000 },
	{ "100.0%", 1000 },
	{ "12.55%", 125 },
	{ "0.1%", 1 },
	{ "0.09%", 0 },
	{ "99.9999999999999999%", 999 },
	{ "infinity", SIZE_UNLIMITED },
	{ "max", SIZE_UNLIMITED },
	{ "unlimited", SIZE_UNLIMITED },
};

static const char *const rubbish[] = {
	"",
	"G",
	"B",
	"%",
	" ",
	"-1",
	"+1",
	"-0",
	"1 ",
	" 1",
	"1 G",
	"1G ",
	"1GG",
	"1Gi",
	"1iB",
	"1i",
	"1X",
	"1KBB",
	"1GiBx",
	"8G\n",
	"1.5",
	"1.5B",
	"1.",
	".5G",
	"1.G",
	"1..5G",
	"1.5.",
	"1,5G",
	"0x10",
	"0x10G",
	"1e9",
	"1e3G",
	"nan",
	"NaN",
	"inf",
	"Max",
	"maxx",
	"auto",
	"infinity ",
	"40%%",
	"40%B",
	"40 %",
	"%40",
	"-40%",
	"1E",
	"1Z",
	"1k%",
	"1_000",
	"1.12345678901234567G",
	"\302\2401", /* a no-break space */
	"99999999999999999999999x",
	"99999999999999999999999 G",
};

static const char *const too_big[] = {
	"101%",
	"100.0000000000000001%",
	"18446744073709551615",
	"18446744073709551616",
	"99999999999999999999999",
	"99999999999999999999999G",
	"16384P",
	"16777216T",
	"17179869184G",
	"18446744073709551615K",
	"16383.9999999999999999P", /* exactly UINT64_MAX, rounded down */
};

static void test_good(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		uint64_t bytes = 42;
		int err = size_parse(good[i].text, WHOLE, &bytes);

		if (err || bytes != good[i].bytes)
			fail_msg("'%s': %d, %ju, not %ju", good[i].text, err, (uintmax_t)bytes,
				 (uintmax_t)good[i].bytes);
	}
}

static void expect(const char *const *texts, size_t count, int err)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t bytes = 42;
		int got = size_parse(texts[i], WHOLE, &bytes);

		if (got != err)
			fail_msg("'%s': %d, not %d", texts[i], got, err);
		assert_int_equal(bytes, 42); /* untouched */
	}
}

static void test_rubbish(void **state)
{
	(void)state;
	expect(rubbish, ARRAY_SIZE(rubbish), -EINVAL);
}

static void test_range(void **state)
{
	(void)state;
	expect(too_big, ARRAY_SIZE(too_big), -ERANGE);
}

/* Percentages of the largest whole neither overflow nor lose a byte. */
static void test_percent_of_all(void **state)
{
	uint64_t bytes;

	(void)state;
	assert_int_equal(size_parse("100%", UINT64_MAX, &bytes), 0);
	assert_true(bytes == UINT64_MAX);
	assert_int_equal(size_parse("50%", UINT64_MAX, &bytes), 0);
	assert_true(bytes == UINT64_MAX / 2);
	assert_int_equal(size_parse("99.9999999999999999%", 1ULL << 62, &bytes), 0);
	assert_true(bytes == (1ULL << 62) - 5);
	assert_int_equal(size_parse("40%", 25276026880, &bytes), 0);
	assert_int_equal(bytes, 10110410752);
	assert_int_equal(size_parse("40%", 0, &bytes), 0);
	assert_int_equal(bytes, 0);
}

static void test_format(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} table[] = {
		{ 0, "0 B" },
		{ 1, "1 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.0 KiB" },
		{ 1536, "1.5 KiB" },
		{ 1024 + 51, "1.0 KiB" },
		{ 1024 + 52, "1.1 KiB" },
		{ MIB - 52, "1023.9 KiB" },
		{ MIB - 51, "1.0 MiB" },
		{ MIB - 1, "1.0 MiB" },
		{ 512 * MIB, "512.0 MiB" },
		{ GIB, "1.0 GiB" },
		{ 25276026880, "23.5 GiB" },
		{ 3 * TIB / 2, "1.5 TiB" },
		{ 1000 * PIB, "1000.0 PiB" },
		{ 5000 * PIB, "5000.0 PiB" },
		{ UINT64_MAX - 1, "16384.0 PiB" },
		{ UINT64_MAX, "infinity" },
	};
	char buf[SIZE_FORMAT_BYTES];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		assert_string_equal(size_format(table[i].bytes, buf), table[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),   cmocka_unit_test(test_rubbish),
		cmocka_unit_test(test_range),  cmocka_unit_test(test_percent_of_all),
		cmocka_unit_test(test_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
