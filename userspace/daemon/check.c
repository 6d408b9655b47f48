/* SPDX-License-Identifier: MIT */
#include "userspace/common/util.h"
#include "userspace/control/config.h"
#include "userspace/daemon/check.h"

int check_config(const char *path, bool print)
{
	_cleanup_(config_freep) struct config *c = NULL;
	struct config_error error;

	/* Not through the log: the line begins with the file's name, for editors. */
	if (config_load(path, &c, &error)) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	if (print)
		config_print(c, stdout);
	else
		printf("%s: OK, %zu rule%s\n", path, c->rules.count,
		       c->rules.count == 1 ? "" : "s");
	return 0;
}
