/* SPDX-License-Identifier: MIT */
/* lock BYTES: mlocks that much, says how it went, and whether it is set-user-ID. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t size = argc == 2 ? strtoul(argv[1], NULL, 0) : 0;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (p == MAP_FAILED)
		return 2;
	err = mlock(p, size) ? errno : 0;
	printf("%s: %s\n", getauxval(AT_SECURE) ? "secure" : "plain",
	       err ? strerror(err) : "locked");
	return err != 0;
}
