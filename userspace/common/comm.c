/* SPDX-License-Identifier: MIT */
#include "userspace/common/comm.h"
#include "userspace/common/util.h"

const char *comm_of_pid(pid_t pid, char ret[COMM_BYTES])
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[32];
	size_t len = 0;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	f = fopen(path, "re");
	if (f)
		len = fread(ret, 1, COMM_BYTES - 1, f);
	ret[len] = '\0';
	if (len && ret[len - 1] == '\n') /* another one may be part of the name */
		ret[len - 1] = '\0';
	return ret;
}
