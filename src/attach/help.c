/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "attach/attach_internal.h"

#define HELP_INDENT 26
#define HELP_WIDTH 79

/* Words of text from column HELP_INDENT on. */
static void wrapped(struct strbuf *b, const char *text)
{
  size_t column = HELP_INDENT;
  while (*text) {
    size_t len = strcspn(text, " ");
    if (column > HELP_INDENT && column + 1 + len > HELP_WIDTH) {
      strbuf_printf(b, "\n%*s", HELP_INDENT, "");
      column = HELP_INDENT;
    } else if (column > HELP_INDENT) {
      strbuf_add(b, " ", 1);
      column++;
    }
    strbuf_add(b, text, len);
    column += len;
    text += len + (text[len] == ' ');
  }
  strbuf_add(b, "\n", 1);
}

static void left_column(struct strbuf *b, const char *text)
{
  size_t len = strlen(text);
  strbuf_printf(b, "%-*s", HELP_INDENT - 1, text);
  if (len >= HELP_INDENT)
    strbuf_printf(b, "\n%*s", HELP_INDENT, "");
  else
    strbuf_add(b, " ", 1);
}

static void option_help(struct strbuf *b, const struct option_row *row)
{
  struct strbuf left = STRBUF_INIT;
  if (row->letter)
    strbuf_printf(&left, "  -%c, --%s", row->letter, row->name);
  else
    strbuf_printf(&left, "      --%s", row->name);
  if (row->arg)
    strbuf_printf(&left, " %s", row->arg);
  left_column(b, strbuf_text(&left));
  wrapped(b, row->help);
  strbuf_free(&left);
}

static void verbs_help(struct strbuf *b)
{
  for (size_t i = 0; i < verbs_count; i++) {
    if (!verbs_table[i].run)
      continue;
    strbuf_printf(b, "  %-*s", HELP_INDENT - 2, verbs_table[i].name);
    wrapped(b, verbs_table[i].help);
  }
}

void options_help(struct strbuf *b)
{
  strbuf_add_str(
      b, "Usage: " ATTACH_NAME " [record] [options] PID\n"
         "       " ATTACH_NAME " [record] [options] -- command [arg...]\n"
         "       " ATTACH_NAME " trace [options] PID | -- command [arg...]\n"
         "       " ATTACH_NAME " status|pause|resume|stop PID\n"
         "       " ATTACH_NAME " report [options] FILE|-\n\n"
         "Samples a LuaJIT program in which the agent is loaded, or starts one "
         "with it,\nand writes merged native and Lua stacks for flame "
         "graphs.\n\nVerbs:\n");
  verbs_help(b);
  strbuf_add_str(b, "\nOptions:\n");
  for (size_t i = 0; i < options_count; i++)
    if (options_table[i].help)
      option_help(b, &options_table[i]);
  strbuf_add_str(
      b, "\nThe result goes to stdout, everything else to stderr.  A command "
         "that is\nstarted here keeps its stdout only with -o; else it is sent "
         "to stderr.\n\nExit status: 0 done, 1 failed, 2 wrong usage, 3 the "
         "process cannot be reached,\n4 no LuaJIT VM in it.  With -- command: "
         "the command's own status; 125 own\nfailure, 126 it can't be run, "
         "127 not found.\n");
}
