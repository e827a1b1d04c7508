"""From repairs to edits of text, in three steps.

1. `steps` makes *changes* of a repair: new text in the place of a node, or beside it. Here a repair is refused, on the
   tree that was executed (`nodes`). `render` finds the words, `import_lines` those of libraries. All of this takes only
   `ast`, so that it costs little to know whether there is a fix.
2. `rewrite` makes the changes in the concrete syntax tree of libcst: `blocks` of statements, lists with `commas`. It is
   loaded only where an edit is written.
3. `edits` are what differs then. What nobody asked to change keeps every byte.

Comments that silence nothing are edited as text (`lint/suppression`): a plain lint writes these edits, too.
"""
