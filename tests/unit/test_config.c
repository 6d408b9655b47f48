/* SPDX-License-Identifier: MIT */
#include "tests/unit/config_case.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "userspace/common/size.h"
#include "userspace/daemon/check.h"

#define GIB (1ULL << 30)

static char *shipped; /* configs/pincap.yaml, absolute */

static void expect_defaults(const struct config *c)
{
	assert_int_equal(c->rules.count, 0);
	assert_int_equal(c->reserve.kind, RULE_SIZE_BYTES);
	assert_int_equal(c->reserve.bytes, 0);
	assert_int_equal(c->tick_ms, 250);
	assert_int_equal(c->hysteresis_percent, 10);
	assert_int_equal(c->dwell_ms, 250);
	assert_int_equal(c->release_timeout_ms, 1000);
	assert_int_equal(c->release_cooldown_ms, 5000);
	assert_string_equal(c->notify_socket, "/run/pincap/notify.sock");
	assert_string_equal(c->control_socket, "/run/pincap/control.sock");
	assert_null(c->group);
	assert_null(c->kfd);
	assert_null(c->drm);
	assert_int_equal(c->log, LOG_LEVEL_INFO);
	assert_false(c->dry_run);
}

static void test_empty(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"# nothing\n",
		"---\n",
		"---\n...\n",
		"{}\n",
		"\xef\xbb\xbf",
		"\r\n# x\r\n",
		"budgets:\n",
		"budgets: []\ndevices:\n",
		"%YAML 1.1\n---\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct config *c;

		write_text("c.yaml", texts[i]);
		c = load("c.yaml");
		expect_defaults(c);
		config_free(c);
	}
	config_free(NULL);
}

static const char everything[] =
	"reserve: 4G\n"
	"tick: 1s\n"
	"hysteresis: 20%\n"
	"dwell: 0ms\n"
	"release_timeout: 2s\n"
	"release_cooldown: 1min\n"
	"notify_socket: /run/n\n"
	"control_socket: /run/c\n"
	"group: root\n"
	"devices:\n"
	"  kfd: /tmp/kfd\n"
	"  drm: /tmp/renderD128\n"
	"log: debug\n"
	"dry_run: true\n"
	"budgets:\n"
	"- match: '/it''s \"[*]\" \\x2d'\n"
	"  limit: 40%\n"
	"  high: 30%\n"
	"  min: 10%\n"
	"  mode: enforce\n"
	"  alloc: pageable\n"
	"  release: transparent\n"
	"  on_over: [log, event, signal:SIGTERM after 30s, freeze after 1min, "
	"kill after 2h]\n"
	"- {match: user:root, limit: auto, mode: observe, on_over: []}\n"
	"- {match: group:0, limit: \"1.5GiB\", alloc: pass, release: none}\n";

static void test_everything(void **state)
{
	struct config *c;
	const struct rule *r;

	(void)state;
	write_text("c.yaml", everything);
	c = load("c.yaml");
	assert_int_equal(c->reserve.bytes, 4 * GIB);
	assert_int_equal(c->tick_ms, 1000);
	assert_int_equal(c->hysteresis_percent, 20);
	assert_int_equal(c->dwell_ms, 0);
	assert_int_equal(c->release_timeout_ms, 2000);
	assert_int_equal(c->release_cooldown_ms, 60000);
	assert_string_equal(c->notify_socket, "/run/n");
	assert_string_equal(c->control_socket, "/run/c");
	assert_string_equal(c->group, "root");
	assert_int_equal(c->gid, 0);
	assert_string_equal(c->kfd, "/tmp/kfd");
	assert_string_equal(c->drm, "/tmp/renderD128");
	assert_int_equal(c->log, LOG_LEVEL_DEBUG);
	assert_true(c->dry_run);
	assert_int_equal(c->rules.count, 3);

	r = &c->rules.list[0];
	assert_string_equal(r->match, "/it's \"[*]\" \\x2d");
	assert_ptr_equal(rules_find(&c->rules, "/it's \"*\" \\x2d"), r);
	assert_string_equal(r->source, "c.yaml:16");
	assert_int_equal(r->limit.kind, RULE_SIZE_PERCENT);
	assert_string_equal(r->limit.percent, "40%");
	assert_string_equal(r->min.percent, "10%");
	assert_int_equal(r->alloc, RULE_ALLOC_PAGEABLE);
	assert_int_equal(r->release, RULE_RELEASE_TRANSPARENT);
	assert_int_equal(r->on_over_count, 5);
	assert_int_equal(r->on_over[2].kind, RULE_RUNG_SIGNAL);
	assert_int_equal(r->on_over[2].signal, SIGTERM);
	assert_int_equal(r->on_over[2].after_ms, 30000);
	assert_int_equal(r->on_over[3].kind, RULE_RUNG_FREEZE);
	assert_int_equal(r->on_over[4].kind, RULE_RUNG_KILL);
	assert_int_equal(r->on_over[4].after_ms, 7200000);

	r = &c->rules.list[1];
	assert_string_equal(r->match, "user:0");
	assert_ptr_equal(rules_find(&c->rules, "/user.slice/user-0.slice"), &c->rules.list[2]);
	assert_int_equal(r->limit.kind, RULE_SIZE_AUTO);
	assert_int_equal(r->mode, RULE_OBSERVE);
	assert_int_equal(r->on_over_count, 0);

	r = &c->rules.list[2]; /* root is a member of its group */
	assert_string_equal(r->match, "group:0");
	assert_int_equal(r->limit.bytes, 3 * GIB / 2);
	assert_int_equal(r->alloc, RULE_ALLOC_PASS);
	assert_int_equal(r->release, RULE_RELEASE_NONE);
	assert_int_equal(r->on_over_count, 2); /* the default */
	assert_int_equal(r->on_over[0].kind, RULE_RUNG_LOG);
	assert_int_equal(r->on_over[1].kind, RULE_RUNG_EVENT);
	config_free(c);
}

/* What is printed is a configuration, and the same one. */
static void test_print(void **state)
{
	struct config *a, *b;
	char *first, *second;

	(void)state;
	write_text("a.yaml", everything);
	a = load("a.yaml");
	first = printed(a);
	write_text("b.yaml", first);
	b = load("b.yaml");
	second = printed(b);
	assert_string_equal(first, second);
	assert_non_null(strstr(first, "    limit: 40%\n"));
	assert_non_null(strstr(first, "signal:TERM after 30s, freeze after 1min, kill after 2h]"));
	assert_non_null(strstr(first, "release_cooldown: 1min\n"));
	assert_non_null(strstr(first, "dwell: 0ms\n"));
	config_free(a);
	config_free(b);
	free(first);
	free(second);
}

static void test_drop_ins(void **state)
{
	struct config *c;

	(void)state;
	write_text("m.yaml", "tick: 1s\ndwell: 1s\nbudgets:\n"
			     "- {match: /a, limit: 1G, min: 1M}\n"
			     "- {match: '/*', limit: 2G}\n");
	mkdir("m.yaml.d", 0755);
	write_text("m.yaml.d/20.yaml", "tick: 100ms\nbudgets:\n- {match: /a, limit: 4G}\n");
	write_text("m.yaml.d/10.yaml", "tick: 500ms\nlog: error\nbudgets:\n"
				       "- {match: /a, limit: 3G}\n- {match: /b, limit: 5G}\n");
	write_text("m.yaml.d/30.yaml.off", "tick: rubbish\n");
	write_text("m.yaml.d/.40.yaml", "tick: rubbish\n");
	write_text("m.yaml.d/.yaml", "tick: rubbish\n");
	write_text("m.yaml.d/README", "tick: rubbish\n");
	c = load("m.yaml");
	assert_int_equal(c->tick_ms, 100);
	assert_int_equal(c->dwell_ms, 1000);
	assert_int_equal(c->log, LOG_LEVEL_ERROR);
	assert_int_equal(c->rules.count, 3);
	assert_string_equal(c->rules.list[0].match, "/*");
	assert_string_equal(c->rules.list[1].match, "/b");
	assert_string_equal(c->rules.list[2].match, "/a");
	assert_int_equal(rules_find(&c->rules, "/a")->limit.bytes, 4 * GIB);
	assert_int_equal(rules_find(&c->rules, "/a")->min.bytes, 0);
	assert_int_equal(rules_find(&c->rules, "/b")->limit.bytes, 5 * GIB);
	assert_int_equal(rules_find(&c->rules, "/c")->limit.bytes, 2 * GIB);
	assert_string_equal(rules_find(&c->rules, "/a")->source, "m.yaml.d/20.yaml:3");
	config_free(c);
}

/* Every key of the shipped file, taken out of its comment, is a key and has the
 * default that it shows. */
static void test_shipped(void **state)
{
	char line[256], *plain, *shown = NULL;
	struct config *c;
	size_t len;
	FILE *in = fopen(shipped, "re"), *out = open_memstream(&shown, &len);
	unsigned int keys = 0;

	(void)state;
	assert_non_null(in);
	c = load(shipped);
	expect_defaults(c);
	plain = printed(c);
	config_free(c);
	while (fgets(line, sizeof(line), in) && !strstr(line, "Examples")) {
		/* these two have no default that could be shown */
		bool example = strstr(line, "group: adm") || strstr(line, "devices:") ||
			       strstr(line, "  kfd:") || strstr(line, "  drm:");

		if (line[0] == '#' && line[1] >= 'a' && line[1] <= 'z') {
			keys++;
			if (!example)
				fputs(line + 1, out);
		}
	}
	fclose(in);
	fclose(out);
	assert_int_equal(keys, 13);
	write_text("shown.yaml", shown);
	c = load("shown.yaml");
	expect_defaults(c);
	free(shown);
	shown = printed(c);
	assert_string_equal(shown, plain);
	config_free(c);
	free(plain);
	free(shown);
}

/* The examples at the end of the shipped file, each as a file of its own. */
static void test_shipped_examples(void **state)
{
	char line[256];
	FILE *in = fopen(shipped, "re"), *out = NULL;
	unsigned int examples = 0;

	(void)state;
	assert_non_null(in);
	while (fgets(line, sizeof(line), in) && !strstr(line, "Examples"))
		;
	for (;;) {
		char *end = fgets(line, sizeof(line), in);
		bool part = end && (!strncmp(line, "#  ", 3) || !strncmp(line, "#budgets", 8) ||
				    !strncmp(line, "#reserve", 8));

		if (part && !out)
			out = fopen("example.yaml", "we");
		if (part) {
			/* names that no host need have */
			if (strstr(line, "group:operators"))
				strcpy(line, "#  - match: group:root\n");
			if (strstr(line, "user:alice"))
				strcpy(line, "#  - match: user:root\n");
			fputs(line + 1, out);
		} else if (out) {
			struct config *c;

			fclose(out);
			out = NULL;
			c = load("example.yaml");
			assert_true(c->rules.count > 0);
			config_free(c);
			examples++;
		}
		if (!end)
			break;
	}
	fclose(in);
	assert_int_equal(examples, 4);
}

static void expect_said(bool print, const char *want)
{
	int out = dup(STDOUT_FILENO), fd;
	char buf[4096];
	ssize_t len;

	fd = open("said", O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	fflush(NULL);
	dup2(fd, STDOUT_FILENO);
	assert_int_equal(check_config("c.yaml", print), 0);
	fflush(NULL);
	dup2(out, STDOUT_FILENO);
	close(out);
	len = pread(fd, buf, sizeof(buf) - 1, 0);
	close(fd);
	assert_true(len >= 0);
	buf[len] = '\0';
	assert_string_equal(buf, want);
}

static void test_check(void **state)
{
	struct config *c;
	char *text;

	(void)state;
	write_text("c.yaml", "budgets:\n- match: /a\n");
	expect_said(false, "c.yaml: OK, 1 rule\n");
	c = load("c.yaml");
	text = printed(c);
	expect_said(true, text);
	free(text);
	config_free(c);
	write_text("c.yaml", "");
	expect_said(false, "c.yaml: OK, 0 rules\n");
}

int main(int argc, char **argv)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, config_case_enter, config_case_leave)
	const struct CMUnitTest tests[] = {
		CASE(test_empty),    CASE(test_everything), CASE(test_print),
		CASE(test_drop_ins), CASE(test_shipped),    CASE(test_shipped_examples),
		CASE(test_check),
	};
	int failed;

	shipped = realpath(argc > 1 ? argv[1] : "configs/pincap.yaml", NULL);
	if (!shipped)
		return 2;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(shipped);
	return failed;
}
