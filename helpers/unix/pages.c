/* Memory for what is large.
 *
 * The program's own static data is kept below a page, together with the C
 * library's: process-creation forks this process, and each further region and page that
 * parent or child writes is one more copy and two more faults in every round. */
#include "unix.h"

#include <sys/mman.h>

/* Zeroed memory that lives as long as the process. */
void *pages(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		die_errno("no memory for %zu bytes", size);
	return p;
}
