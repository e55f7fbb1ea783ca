/* SPDX-License-Identifier: MIT
 *
 * The one result code of the project.  A function that can fail returns it;
 * the detail goes into the caller's struct error (util/error.h), so that
 * nothing but the program's main room needs to print.
 */
#ifndef BASE_RESULT_H
#define BASE_RESULT_H

/* X(name, one word for messages and tests) */
#define RESULT_TABLE(X)                                                        \
  X(OK, "ok")                                                                  \
  X(NOMEM, "no memory")                                                        \
  X(IO, "input/output error")                                                  \
  X(GONE, "process gone")                                                      \
  X(PERM, "not permitted")                                                     \
  X(NOAGENT, "agent not loaded")                                               \
  X(VERSION, "other version")                                                  \
  X(CORRUPT, "corrupt data")                                                   \
  X(NOVM, "no LuaJIT VM")                                                      \
  X(BUSY, "busy")                                                              \
  X(USAGE, "wrong usage")                                                      \
  X(UNSUPPORTED, "not supported")                                              \
  X(NOTFOUND, "not found")                                                     \
  X(FULL, "full")                                                              \
  X(END, "end")                                                                \
  X(TIMEOUT, "no answer in time")

enum result {
#define RESULT_ENUM(name, text) RESULT_##name,
  RESULT_TABLE(RESULT_ENUM)
#undef RESULT_ENUM
};

/* Static text of a code, never NULL. */
const char *result_text(enum result r);

#endif
