/* What C programs of the scenarios share: a check that says where it failed. */

#include "grpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(is, expected)                                                                                   \
    do {                                                                                                      \
        int found = (is);                                                                                     \
        if (found != (expected)) {                                                                            \
            fprintf(stderr, "%s:%d: %s is %d (%s), not %d; the last failure: %s\n", __FILE__, __LINE__, #is,  \
                    found, grpc_error_string(found), (expected), kumiko_last_message());                      \
            exit(1);                                                                                          \
        }                                                                                                     \
    } while (0)

#define SAID(text) CHECK(strstr(kumiko_last_message(), text) != NULL, 1)
