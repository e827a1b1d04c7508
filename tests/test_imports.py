"""Who may import whom. The table stands for the design: two leaks end readability, a flow engine that knows torch
and a rule that knows syntax, and an import is where both begin."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

import pytest

from tests.support.sources import ROOT, Source, sources

# A part of the product, and the parts that it may import. A part is the longest prefix that has a row here.
MAY_IMPORT: dict[str, set[str]] = {
    "gpudoctor": set(),
    "gpudoctor.__main__": {"gpudoctor.cli"},
    "gpudoctor.diagnostic": set(),
    "gpudoctor.coverage": {"gpudoctor.diagnostic"},
    "gpudoctor.trials": set(),
    "gpudoctor.errors": set(),
    "gpudoctor.record": set(),
    "gpudoctor.drafts": set(),
    # Where the modules of the command line are found.
    "gpudoctor.own_modules": set(),
    # What is known of libraries, as data: for all who ask what a dotted name means.
    # A table of stubs that was read anew is kept for the next start.
    "gpudoctor.manifest": {"gpudoctor.drafts"},
    # Which formats may be asked for.
    "gpudoctor.config": {
        "gpudoctor.required_version",
        "gpudoctor.report",
        "gpudoctor.diagnostic",
        "gpudoctor.errors",
    },
    "gpudoctor.required_version": {"gpudoctor", "gpudoctor.errors"},
    # --- what a program is, on paper: no torch in `flow`, no syntax in anything up to `program` ---
    "gpudoctor.lint.flow": {"gpudoctor.diagnostic"},
    "gpudoctor.lint.domain": {"gpudoctor.lint.flow", "gpudoctor.diagnostic"},
    "gpudoctor.lint.events": {
        "gpudoctor.lint.domain",
        "gpudoctor.lint.flow",
        "gpudoctor.diagnostic",
        "gpudoctor.manifest",
    },
    "gpudoctor.lint.repair": {
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.diagnostic",
        "gpudoctor.manifest",
    },
    # What a rule is told goes on to the report: which answers made it silent.
    "gpudoctor.lint.guard_log": {"gpudoctor.lint.domain", "gpudoctor.coverage", "gpudoctor.diagnostic"},
    # What happened, which ranks came there, and what rules may ask of it: each sees the one before.
    "gpudoctor.lint.execution_log": {
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.lint.flow",
        "gpudoctor.lint.guard_log",
        "gpudoctor.coverage",
        "gpudoctor.diagnostic",
    },
    "gpudoctor.lint.reached_ranks": {
        "gpudoctor.lint.execution_log",
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.lint.flow",
    },
    # What a program may ask of its project, and who answers.
    "gpudoctor.lint.project_answers": set(),
    "gpudoctor.lint.program": {
        "gpudoctor.lint.reached_ranks",
        "gpudoctor.lint.project_answers",
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.lint.flow",
        "gpudoctor.lint.guard_log",
        "gpudoctor.manifest",
        "gpudoctor.coverage",
        "gpudoctor.diagnostic",
    },
    # What rules of several families ask of a program.
    "gpudoctor.lint.questions": {
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.lint.flow",
        "gpudoctor.lint.program",
        "gpudoctor.manifest",
    },
    # --- from files to trees ---
    # What is borrowed of the process, with a lock: who parses and who follows long chains of imports.
    "gpudoctor.lint.process_state": set(),
    "gpudoctor.lint.size_limits": set(),
    "gpudoctor.lint.notebooks": {"gpudoctor.lint.process_state", "gpudoctor.lint.size_limits", "gpudoctor.diagnostic"},
    # How to look through a syntax tree, for all who do.
    "gpudoctor.lint.source.syntax_walk": set(),
    # Records of what setting files say, for those that read them and those that make values of it.
    "gpudoctor.lint.source.group_options": set(),
    "gpudoctor.lint.source": {
        "gpudoctor.lint.project_answers",
        "gpudoctor.lint.source.group_options",
        "gpudoctor.lint.source.syntax_walk",
        "gpudoctor.lint.notebooks",
        "gpudoctor.lint.process_state",
        "gpudoctor.lint.size_limits",
        "gpudoctor.drafts",
        "gpudoctor.diagnostic",
        "gpudoctor.errors",
        "gpudoctor.manifest",
    },
    "gpudoctor.lint.suppression": {
        "gpudoctor.lint.launchfiles",
        "gpudoctor.lint.source",
        "gpudoctor.rule",
        "gpudoctor.diagnostic",
    },
    # What a session remembers is a part of what it asks.
    "gpudoctor.lint.runtime.result_memory": {"gpudoctor.lint.entry_result", "gpudoctor.lint.source"},
    "gpudoctor.lint.request": {
        "gpudoctor.lint.runtime.result_memory",
        "gpudoctor.lint.program_facts",
        "gpudoctor.rule",
        "gpudoctor.coverage",
        "gpudoctor.diagnostic",
        "gpudoctor.errors",
    },
    # What a program says of how it wants to be started, for the files that start it.
    "gpudoctor.lint.program_facts": {"gpudoctor.diagnostic"},
    # Files that start programs know of programs no more than these facts.
    "gpudoctor.lint.launchfiles": {
        "gpudoctor.lint.program_facts",
        "gpudoctor.lint.source",
        "gpudoctor.diagnostic",
    },
    "gpudoctor.lint.launch_rules": {
        "gpudoctor.lint.ask_rules",
        "gpudoctor.lint.launchfiles",
        "gpudoctor.lint.discovery",
        "gpudoctor.lint.entry_result",
        "gpudoctor.lint.request",
        "gpudoctor.lint.source",
        "gpudoctor.registry",
        "gpudoctor.diagnostic",
        "gpudoctor.errors",
    },
    "gpudoctor.lint.entry_result": {
        "gpudoctor.lint.program_facts",
        "gpudoctor.lint.source",
        "gpudoctor.coverage",
        "gpudoctor.diagnostic",
        "gpudoctor.errors",
    },
    "gpudoctor.lint.runtime.workers": set(),
    # What a file is, and which of its definitions matter, is asked before and while a program is followed.
    "gpudoctor.lint.discovery": {
        "gpudoctor.lint.source.syntax_walk",
        "gpudoctor.lint.runtime",
        "gpudoctor.lint.runtime.workers",
        "gpudoctor.lint.notebooks",
        "gpudoctor.lint.request",
        "gpudoctor.lint.size_limits",
        "gpudoctor.lint.source",
        "gpudoctor.config",
        "gpudoctor.diagnostic",
        "gpudoctor.errors",
        "gpudoctor.manifest",
    },
    "gpudoctor.lint.runtime": {
        "gpudoctor",
        "gpudoctor.lint.runtime.result_memory",
        "gpudoctor.lint.entry_result",
        "gpudoctor.lint.program_facts",
        "gpudoctor.lint.request",
        "gpudoctor.lint.source",
        "gpudoctor.coverage",
        "gpudoctor.diagnostic",
    },
    # --- from trees to events ---
    # What a model may ask and do, as types.
    "gpudoctor.lint.library_context": {
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.lint.flow",
        "gpudoctor.diagnostic",
    },
    # What containers hold, and what classes have: asked by models and by the evaluation.
    "gpudoctor.lint.contents": {
        "gpudoctor.lint.library_context",
        "gpudoctor.lint.hooks",
        "gpudoctor.lint.domain",
        "gpudoctor.lint.flow",
    },
    "gpudoctor.lint.library_call": {
        "gpudoctor.lint.library_context",
        "gpudoctor.lint.hooks",
        "gpudoctor.lint.contents",
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.lint.flow",
        "gpudoctor.diagnostic",
        "gpudoctor.manifest",
    },
    # What the evaluation raises, for those who know what values stand for.
    "gpudoctor.lint.hooks": {
        "gpudoctor.lint.library_context",
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.lint.flow",
        "gpudoctor.diagnostic",
    },
    "gpudoctor.lint.analyses": {
        "gpudoctor.lint.source.syntax_walk",
        "gpudoctor.lint.contents",
        "gpudoctor.lint.library_context",
        "gpudoctor.lint.hooks",
        "gpudoctor.lint.library_call",
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.lint.flow",
        "gpudoctor.diagnostic",
        "gpudoctor.manifest",
    },
    "gpudoctor.lint.library": {
        "gpudoctor.lint.source.group_options",
        "gpudoctor.lint.source.syntax_walk",
        "gpudoctor.lint.contents",
        "gpudoctor.lint.library_context",
        "gpudoctor.lint.analyses",
        "gpudoctor.lint.hooks",
        "gpudoctor.lint.library.library_names",
        "gpudoctor.lint.library.register",
        "gpudoctor.lint.library_call",
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.lint.flow",
        "gpudoctor.diagnostic",
        "gpudoctor.manifest",
    },
    # The one list of all that knows libraries, and questions about their names.
    "gpudoctor.lint.library.register": {
        "gpudoctor.lint.library",
        "gpudoctor.lint.analyses",
        "gpudoctor.lint.hooks",
        "gpudoctor.lint.library_call",
        "gpudoctor.manifest",
    },
    "gpudoctor.lint.library.library_names": {"gpudoctor.manifest"},
    # Python and nothing else: no model, no analysis.
    "gpudoctor.lint.interp": {
        "gpudoctor.lint.project_answers",
        "gpudoctor.lint.program_facts",
        "gpudoctor.lint.source.group_options",
        "gpudoctor.lint.source.syntax_walk",
        "gpudoctor.lint.contents",
        "gpudoctor.lint.library_context",
        "gpudoctor.lint.library.register",
        "gpudoctor.lint.library.library_names",
        "gpudoctor.lint.hooks",
        "gpudoctor.lint.library_call",
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.lint.flow",
        "gpudoctor.lint.program",
        "gpudoctor.lint.discovery",
        "gpudoctor.lint.source",
        "gpudoctor.lint.process_state",
        "gpudoctor.diagnostic",
        "gpudoctor.errors",
        "gpudoctor.manifest",
    },
    # By which error a rank notices that another has ended.
    "gpudoctor.run.recording": {"gpudoctor.diagnostic", "gpudoctor.logs.error_texts"},
    "gpudoctor.rule": {
        "gpudoctor.lint.launchfiles",
        "gpudoctor.lint.program",
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.run.recording",
        "gpudoctor.diagnostic",
    },
    "gpudoctor.card_index": {"gpudoctor", "gpudoctor.rule", "gpudoctor.diagnostic", "gpudoctor.drafts"},
    "gpudoctor.page_examples": set(),
    "gpudoctor.registry": {
        "gpudoctor.card_index",
        "gpudoctor.page_examples",
        "gpudoctor.rule",
        "gpudoctor.diagnostic",
        "gpudoctor.errors",
    },
    # --- from events to findings ---
    "gpudoctor.lint.fix": {
        "gpudoctor.lint.events",
        "gpudoctor.lint.source.syntax_walk",
        "gpudoctor.lint.repair",
        "gpudoctor.lint.program",
        "gpudoctor.lint.domain",
        "gpudoctor.lint.flow",
        "gpudoctor.lint.process_state",
        "gpudoctor.lint.source",
        "gpudoctor.diagnostic",
    },
    # Whether a finding is sure hangs on the values behind it.
    "gpudoctor.lint.results": {
        "gpudoctor.lint.source.syntax_walk",
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.lint.flow",
        "gpudoctor.lint.fix",
        "gpudoctor.lint.questions",
        "gpudoctor.lint.program",
        "gpudoctor.lint.program_facts",
        "gpudoctor.lint.discovery",
        "gpudoctor.lint.source",
        "gpudoctor.lint.suppression",
        "gpudoctor.lint.entry_result",
        "gpudoctor.lint.request",
        "gpudoctor.lint.size_limits",
        "gpudoctor.rule",
        "gpudoctor.config",
        "gpudoctor.coverage",
        "gpudoctor.diagnostic",
        "gpudoctor.manifest",
    },
    "gpudoctor.lint.ask_rules": {
        "gpudoctor.lint.interp",
        "gpudoctor.lint.results",
        "gpudoctor.lint.program",
        "gpudoctor.registry",
        "gpudoctor.rule",
        "gpudoctor.coverage",
        "gpudoctor.diagnostic",
        "gpudoctor.errors",
    },
    "gpudoctor.lint.started_entry": {
        "gpudoctor.lint.ask_rules",
        "gpudoctor.lint.discovery",
        "gpudoctor.lint.interp",
        "gpudoctor.lint.program",
        "gpudoctor.lint.program_facts",
        "gpudoctor.lint.request",
        "gpudoctor.lint.source",
        "gpudoctor.diagnostic",
    },
    "gpudoctor.lint.judge_entry": {
        "gpudoctor.coverage",
        "gpudoctor.lint.ask_rules",
        "gpudoctor.lint.fix",
        "gpudoctor.lint.interp",
        "gpudoctor.lint.program",
        "gpudoctor.lint.program_facts",
        "gpudoctor.lint.results",
        "gpudoctor.lint.started_entry",
        "gpudoctor.diagnostic",
    },
    "gpudoctor.lint.analyze": {
        "gpudoctor.lint.events",
        "gpudoctor.coverage",
        "gpudoctor.lint.flow",
        "gpudoctor.lint.judge_entry",
        "gpudoctor.lint.results",
        "gpudoctor.lint.started_entry",
        "gpudoctor.lint.program",
        "gpudoctor.lint.program_facts",
        "gpudoctor.lint.discovery",
        "gpudoctor.lint.entry_result",
        "gpudoctor.lint.request",
        "gpudoctor.lint.process_state",
        "gpudoctor.lint.runtime",
        "gpudoctor.lint.runtime.workers",
        "gpudoctor.lint.source",
        "gpudoctor.diagnostic",
    },
    "gpudoctor.lint.schedule": {
        "gpudoctor.lint.discovery",
        "gpudoctor.lint.entry_result",
        "gpudoctor.lint.request",
        "gpudoctor.lint.source",
        "gpudoctor.diagnostic",
    },
    "gpudoctor.lint.pipeline": {
        "gpudoctor.lint.analyze",
        "gpudoctor.lint.launch_rules",
        "gpudoctor.lint.launchfiles",
        "gpudoctor.lint.schedule",
        "gpudoctor.lint.results",
        "gpudoctor.lint.discovery",
        "gpudoctor.lint.entry_result",
        "gpudoctor.lint.request",
        "gpudoctor.lint.runtime",
        "gpudoctor.lint.source",
    },
    "gpudoctor.lint.lint_options": {
        "gpudoctor.lint.request",
        "gpudoctor.lint.runtime",
        "gpudoctor.registry",
        "gpudoctor.config",
        "gpudoctor.errors",
    },
    # Which findings count: a baseline knows them by what services know them by, and comments silence them.
    "gpudoctor.triage": {
        "gpudoctor.lint.fix_loop",
        "gpudoctor.lint.results",
        "gpudoctor.lint.source",
        "gpudoctor.lint.suppression",
        "gpudoctor.lint.request",
        "gpudoctor.lint.size_limits",
        "gpudoctor.report",
        "gpudoctor.plain",
        "gpudoctor.drafts",
        "gpudoctor.diagnostic",
        "gpudoctor.errors",
    },
    # The door for those who call from Python.
    "gpudoctor.api": {
        "gpudoctor.lint.fix_loop",
        "gpudoctor.lint.lint_options",
        "gpudoctor.lint.pipeline",
        "gpudoctor.lint.process_state",
        "gpudoctor.lint.program",
        "gpudoctor.lint.request",
        "gpudoctor.lint.runtime.result_memory",
        "gpudoctor.lint.size_limits",
        "gpudoctor.lint.source",
        "gpudoctor.config",
        "gpudoctor.coverage",
        "gpudoctor.diagnostic",
        "gpudoctor.errors",
        "gpudoctor.registry",
        "gpudoctor.rule",
        "gpudoctor.triage",
    },
    # What packs of rules import. The built-in rules take from it what only mypy reads.
    "gpudoctor.api.pack": {
        "gpudoctor.lint.launchfiles",
        "gpudoctor.lint.program_facts",
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.lint.flow",
        "gpudoctor.lint.questions",
        "gpudoctor.lint.repair",
        "gpudoctor.run.recording",
        "gpudoctor.lint.program",
        "gpudoctor.diagnostic",
    },
    # A rule itself says what its fix may bring to light.
    "gpudoctor.lint.fix_loop": {
        "gpudoctor.registry",
        "gpudoctor.rule",
        "gpudoctor.lint.pipeline",
        "gpudoctor.lint.fix",
        "gpudoctor.lint.discovery",
        "gpudoctor.lint.request",
        "gpudoctor.lint.source",
        "gpudoctor.diagnostic",
    },
    # Where the pages are: one setting, for all who link to them.
    "gpudoctor.page_address": set(),
    # An editor's: it builds on the door for those who call from Python.
    "gpudoctor.server": {
        "gpudoctor",
        "gpudoctor.api",
        "gpudoctor.lint.notebooks",
        "gpudoctor.lint.source",
        "gpudoctor.page_address",
        "gpudoctor.registry",
        "gpudoctor.report",
        "gpudoctor.rule",
        "gpudoctor.triage",
        "gpudoctor.config",
        "gpudoctor.errors",
    },
    "gpudoctor.lint": set(),
    # Also what is made for pages and services must show what others wrote, and never obey it.
    "gpudoctor.visible": set(),
    # A log that explains the rules shows their pages.
    "gpudoctor.report": {
        "gpudoctor",
        "gpudoctor.registry",
        "gpudoctor.rule",
        "gpudoctor.trials",
        "gpudoctor.coverage",
        "gpudoctor.diagnostic",
        "gpudoctor.plain",
        "gpudoctor.page_address",
        "gpudoctor.visible",
        "gpudoctor.manifest",
    },
    "gpudoctor.plain": set(),
    "gpudoctor.html": set(),
    "gpudoctor.ranks": {"gpudoctor.errors"},
    "gpudoctor.probe": {
        "gpudoctor.html",
        "gpudoctor.plain",
        "gpudoctor.ranks",
        "gpudoctor.diagnostic",
        "gpudoctor.errors",
        "gpudoctor.config",
    },
    # What makes a program believe in GPUs: loaded in its processes only, and known to nobody but who starts it there.
    "gpudoctor.virtual": set(),
    "gpudoctor.run": {
        "gpudoctor.virtual",
        "gpudoctor.plain",
        "gpudoctor.run.recording",
        "gpudoctor.ranks",
        "gpudoctor.registry",
        "gpudoctor.rule",
        "gpudoctor.diagnostic",
        "gpudoctor.errors",
        "gpudoctor.config",
        # Which collectives there are.
        "gpudoctor.manifest",
        # What an error means that no rule has seen coming.
        "gpudoctor.logs.error_texts",
    },
    # What a job left behind is read without torch and without its program.
    "gpudoctor.logs.error_texts": set(),
    "gpudoctor.logs": {"gpudoctor.logs.error_texts", "gpudoctor.errors"},
    # With which error a mistake ends stands in its rule.
    "gpudoctor.logs.declared_texts": {"gpudoctor.registry", "gpudoctor.rule"},
    "gpudoctor.logs.log_report": {"gpudoctor.logs", "gpudoctor.logs.declared_texts", "gpudoctor.logs.error_texts"},
    "gpudoctor.run.page": {
        "gpudoctor.html",
        "gpudoctor.page_address",
        "gpudoctor.report",
        "gpudoctor.run",
        "gpudoctor.run.recording",
        "gpudoctor.diagnostic",
    },
    # `gpudoctor.lint.flow` gives rules the types of conditions, nothing that acts.
    "gpudoctor_rules": {
        "gpudoctor.api.pack",
        "gpudoctor.rule",
        "gpudoctor.lint.questions",
        "gpudoctor.lint.launchfiles",
        "gpudoctor.lint.program_facts",
        "gpudoctor.lint.program",
        "gpudoctor.lint.domain",
        "gpudoctor.lint.events",
        "gpudoctor.lint.repair",
        "gpudoctor.lint.flow",
        "gpudoctor.run.recording",
        "gpudoctor.diagnostic",
    },
}
ANYTHING = "gpudoctor.cli"
BY_ALL = "gpudoctor.record"
NEEDED_LATE = {"rich", "libcst", "tree_sitter", "tree_sitter_bash", "yaml", "pathspec", "torch", "pynvml", "psutil"}
# Where an earlier run has done its work, most of the start-up time would be for nothing.
LATE = {
    # Few programs look a name up that a setting gives.
    "gpudoctor.lint.library.dynamic_import",
    # Most settings files are for any version.
    "gpudoctor.required_version",
    # What a report says of a program; where all is known already, no event is looked at.
    "gpudoctor.lint.events.knowledge",
    "gpudoctor.lint.questions.loop_rounds",
    "gpudoctor.lint.analyze",
    # Most scripts make few things that are alike.
    "gpudoctor.lint.interp.memoized_calls",
    # Mostly the index of the rules is up to date, and nothing is written.
    "gpudoctor.drafts",
    # Most lints show all that they find.
    "gpudoctor.triage.baseline",
    "gpudoctor.triage.git_changes",
    "gpudoctor.triage.ignore_comments",
    # Most commands show no page.
    "gpudoctor.page_examples",
    # Mostly what the stubs say is known from before.
    "gpudoctor.manifest.libraries",
    "gpudoctor.manifest.stub_files",
    "gpudoctor.manifest.telling_names",
    # Most programs train without one.
    "gpudoctor.manifest.framework_roles",
    # Few programs have a name that may be one of so many.
    "gpudoctor.lint.domain.one_of_several",
    # Most programs make no mistake.
    "gpudoctor.lint.events.option_defaults",
    "gpudoctor.lint.suppression.directives",
    "gpudoctor.lint.results.enrich",
    "gpudoctor.lint.results.remedy_words",
    # Mostly programs are linted, and not what starts them; and what starts them is mostly a shell script.
    "gpudoctor.lint.launch_rules",
    "gpudoctor.lint.launchfiles.reading",
    "gpudoctor.lint.launchfiles.charts",
    "gpudoctor.lint.launchfiles.dockerfile",
    "gpudoctor.lint.launchfiles.ini_commands",
    "gpudoctor.lint.launchfiles.python_commands",
    "gpudoctor.lint.launchfiles.quoted_commands",
    "gpudoctor.lint.launchfiles.makefile",
    "gpudoctor.lint.launchfiles.compose",
    "gpudoctor.lint.launchfiles.images",
    "gpudoctor.lint.launchfiles.justfile",
    "gpudoctor.lint.launchfiles.task_documents",
    "gpudoctor.lint.launchfiles.task_tables",
    "gpudoctor.lint.launchfiles.overlays",
    "gpudoctor.lint.launchfiles.services",
    "gpudoctor.lint.launchfiles.launchers",
    "gpudoctor.lint.launchfiles.shell",
    "gpudoctor.lint.launchfiles.placed_text",
    # What is named on the command line is mostly one file, which surely is a program.
    "gpudoctor.lint.discovery.prefilter",
    # Mostly whole folders are linted, or programs.
    "gpudoctor.lint.discovery.importers",
    # Programs are mostly named: no folder is searched.
    "gpudoctor.lint.discovery.gitignore",
    # Most files that are linted are programs, and start in one way.
    "gpudoctor.lint.interp.entry",
    # Most programs import no star of a module that was not executed.
    "gpudoctor.lint.interp.exports",
    # Most programs have a value for each name that they ask for.
    "gpudoctor.lint.interp.unbound_names",
    # Most programs name their classes themselves.
    "gpudoctor.lint.source.hydra_configs",
    "gpudoctor.lint.source.setting_files",
    # Most programs import no zoo of models.
    "gpudoctor.lint.interp.registries",
    # Most programs train in all of their files that do.
    "gpudoctor.lint.interp.unreached_training",
    # Few rules that find something ask what else a program names.
    "gpudoctor.lint.interp.reachable_code",
    # Most projects have no notebooks.
    "gpudoctor.lint.discovery.written_files",
    "gpudoctor.lint.notebooks.write",
    "gpudoctor.lint.notebooks.shell_lines",
    "gpudoctor.lint.notebooks.joined_cells",
    "gpudoctor.lint.notebooks.ipynb",
    "gpudoctor.lint.notebooks.magics",
    # Most programs have no finding for which it matters.
    "gpudoctor.lint.source.needed_versions",
    "gpudoctor.lint.source.launch_lines",
    # Most programs say so themselves, or in the words of a framework.
    "gpudoctor.lint.discovery.call_search",
    # Most projects have no file that does not parse.
    "gpudoctor.lint.source.newer_syntax",
    "gpudoctor.lint.source.syntax_errors",
    # A lint has no run to look at.
    "gpudoctor_rules.checkpoint._written",
    "gpudoctor_rules.collective._numbers",
    "gpudoctor_rules.collective._stuck",
    "gpudoctor_rules.data._seen",
    # Most runs ask for no fixes.
    "gpudoctor.lint.interp.scope_snapshots",
    "gpudoctor.lint.fix.fixes",
    # Few causes show at several places that can be fixed.
    "gpudoctor.lint.fix.edits",
    # Most of those that ask for them get none: libcst is loaded where an edit is written.
    "gpudoctor.lint.fix.rewrite",
    # In the user's process: only in ranks of a launcher that we have started.
    "gpudoctor.ranks.process_tree",
    # In the user's process: not before torch is there, and not where nothing is recorded.
    "gpudoctor.run.startup_agent",
    "gpudoctor.run.instruments",
    # Most runs are those of real GPUs.
    "gpudoctor.virtual.install",
    "gpudoctor.virtual.kernel_stand_ins",
    # Most programs have no tensors over a mesh.
    "gpudoctor.virtual.sharded_attention",
    "gpudoctor.virtual.sharded_draws",
    "gpudoctor.virtual.sharded_operators",
}


class Import(NamedTuple):
    """One import statement's target: a dotted name, the line, and where it stands."""

    target: str
    line: int
    in_function: bool
    for_types: bool


def test_imports_follow_the_table() -> None:
    wrong = [
        f"{source.shown}:{each.line} {part} imports {each.target}"
        for source, each in _internal()
        if (part := _part(source.name)) != ANYTHING
        and (goal := _part(each.target)) not in (part, BY_ALL)
        and goal not in MAY_IMPORT.get(part, set())
    ]
    assert not wrong, "not in the table of DESIGN (tests/test_imports.py):\n" + "\n".join(wrong)


def test_every_part_has_a_row() -> None:
    loose = [s.shown for s in sources().values() if _part(s.name) == "gpudoctor" and s.name != "gpudoctor"]
    assert not loose, f"no row in MAY_IMPORT for {loose}"


def test_rules_of_one_family_do_not_import_rules_of_another() -> None:
    wrong = []
    for source, each in _internal():
        here, there = source.name.split("."), each.target.split(".")
        # Error texts are data, and one text may belong to mistakes of several families.
        other = here[0] == there[0] == "gpudoctor_rules" and len(there) > 1 and here[1:2] != there[1:2]
        if other and there[1] != "_error_texts":
            wrong.append(f"{source.shown}:{each.line} imports {each.target}")
    assert not wrong, "\n".join(wrong)


def test_what_follows_python_names_nothing_of_torch() -> None:
    """It would be told what it means: a name is asked of the models, a step is raised as a hook."""
    wrong = [
        f"{source.shown}:{node.lineno} has {node.value!r}"
        for source in sources().values()
        if source.name.startswith("gpudoctor.lint.interp")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"torch\b", node.value)
    ]
    assert not wrong, "\n".join(wrong)


def test_rules_never_look_at_syntax() -> None:
    wrong = [
        f"{source.shown}:{each.line} imports {each.target}"
        for source in sources().values()
        if source.name.startswith("gpudoctor_rules")
        for each in _imports(source)
        if each.target.split(".")[0] in {"ast", "re", "tokenize", "libcst", "inspect"}
    ]
    assert not wrong, "a fact or a library model is missing; add that instead:\n" + "\n".join(wrong)


TAKEN_APART = ("symbols", "container", "provenance")
VALUE = "gpudoctor.lint.domain.value"
PLAIN = {"Const", "Unknown", "Text", "Anonymous", "Namespace", "ValueSet", "Binding", "NONE", "TRUE", "FALSE"}


def test_rules_take_no_values_apart() -> None:
    """What a rule asks of a value, it answers, or an event does, or a question of `lint/questions`."""
    apart = {f"gpudoctor.lint.domain.{each}" for each in TAKEN_APART}
    wrong = [
        f"{source.shown}:{node.lineno} {alias.name}"
        for source in sources().values()
        if source.name.startswith("gpudoctor_rules")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if node.module in apart or alias.name in PLAIN or (alias.name.endswith("_of") and node.module == VALUE)
    ]
    assert not wrong


def test_late_imports_only_defer_what_is_slow() -> None:
    wrong = [
        f"{source.shown}:{each.line} imports {each.target} inside a function"
        for source in sources().values()
        for each in _imports(source)
        if each.in_function
        and each.target.split(".")[0] not in NEEDED_LATE
        and each.target not in LATE
        and each.target.split(".")[0] in {"gpudoctor", "gpudoctor_rules"}
        and _part(source.name) != ANYTHING
    ]
    assert not wrong, "\n".join(wrong)


def test_no_cycles_when_loaded() -> None:
    cycle = _cycle(_edges(each for each in _internal() if not each[1].in_function and not each[1].for_types))
    assert cycle is None, f"import cycle: {' -> '.join(cycle)}"


def test_no_circles() -> None:
    """Imports for types and inside functions count: what needs another to be understood is in a circle with it."""
    cycle = _cycle(_edges(_internal()))
    assert cycle is None, f"circle of imports: {' -> '.join(cycle)}"


@pytest.mark.parametrize("module", ["gpudoctor.cli", "gpudoctor.lint.pipeline"])
def test_start_up_leaves_out_what_is_slow(module: str) -> None:
    code = f"import {module}, sys; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=600
    )
    loaded = set(run.stdout.split())
    slow = {
        "torch",
        "libcst",
        "pathspec",
        "rich",
        "numpy",
        "importlib.metadata",
        "multiprocessing",
        "concurrent.futures",
        "tree_sitter",
        "yaml",
    }
    assert not loaded & slow


def test_lint_loads_nothing_that_only_runs_and_pages_need() -> None:
    """Rules are judged by what a run has shown, too, and have a page: their files must not bring that along."""
    script = "fixtures/programs/one_script/train.py"
    # The index of the rules is there: whoever comes first after a change of one reads them all to write it.
    subprocess.run([sys.executable, "-m", "gpudoctor", "rules"], cwd=ROOT, capture_output=True, check=True, timeout=600)
    code = f"import sys, gpudoctor.cli as c; c.main(['lint', '-q', '--no-cache', {script!r}]); print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=600
    )
    loaded = set(run.stdout.split())
    assert "gpudoctor.lint.interp.interpreter" in loaded
    assert not {name for name in loaded if name.startswith(("gpudoctor.run", "gpudoctor.probe"))} | loaded & {
        "statistics",
        "gpudoctor.page_examples",
        "gpudoctor.plain",
        "tree_sitter",
        "tree_sitter_bash",
        "yaml",
    }
    assert not {name for name in loaded if name.startswith("gpudoctor.lint.launch")}


def test_start_up_does_not_load_the_rules() -> None:
    code = "import gpudoctor.cli, sys; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=600
    )
    assert not [name for name in run.stdout.split() if name.startswith("gpudoctor_rules.")]


@cache
def _part(name: str) -> str:
    """The row of the table that a module belongs to."""
    for row in sorted({*MAY_IMPORT, ANYTHING}, key=len, reverse=True):
        if name == row or name.startswith(f"{row}."):
            return row
    return "gpudoctor"


def _internal() -> Iterator[tuple[Source, Import]]:
    for source in sources().values():
        for each in _imports(source):
            if each.target.split(".")[0] in {"gpudoctor", "gpudoctor_rules"}:
                yield source, each


def _imports(source: Source) -> tuple[Import, ...]:
    return _all_imports()[source.name]


@cache
def _all_imports() -> dict[str, tuple[Import, ...]]:
    return {s.name: tuple(_walk(s, s.tree, in_function=False, for_types=False)) for s in sources().values()}


def _walk(source: Source, node: ast.AST, *, in_function: bool, for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, in_function, for_types)
        elif isinstance(child, ast.ImportFrom):
            for target in _targets(source, child):
                yield Import(target, child.lineno, in_function, for_types)
        else:
            yield from _walk(
                source,
                child,
                in_function=in_function or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)),
                for_types=for_types or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)),
            )


def _targets(source: Source, node: ast.ImportFrom) -> Iterator[str]:
    """The modules that `from x import a, b` loads: `x.a` where that is a module of ours, else `x`."""
    base = node.module or ""
    if node.level:
        here = source.name.split(".")
        above = here[: len(here) - node.level + source.is_package]
        base = ".".join((*above, base)) if base else ".".join(above)
    for alias in node.names:
        yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in sources() else base


def _edges(imports: Iterable[tuple[Source, Import]]) -> dict[str, set[str]]:
    edges: dict[str, set[str]] = {}
    for source, each in imports:
        if each.target != source.name:
            edges.setdefault(source.name, set()).add(each.target)
    return edges


def _cycle(edges: dict[str, set[str]]) -> tuple[str, ...] | None:
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> tuple[str, ...] | None:
        if name in way:
            return (*way[way.index(name) :], name)
        if name in done:
            return None
        for target in sorted(edges.get(name, ())):
            found = visit(target, (*way, name))
            if found:
                return found
        done.add(name)
        return None

    return next((found for name in sorted(edges) if (found := visit(name, ()))), None)
