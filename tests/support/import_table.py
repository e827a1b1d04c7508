"""Who may import whom, part by part. A part is a package or a module of the product, and its name goes without the
`gpudoctor.` that all begin with; a module belongs to the longest row that its name begins with."""

BY_ALL = {"record", "diagnostic", "errors", "coverage"}
"""What everybody may import: plain data that know nothing else of the product."""
VALUES = "lint.flow lint.domain lint.events"
"""What a program is, as `*values` in the table."""
ANYTHING = "cli"
"""May import whatever it likes."""
MAY_IMPORT: dict[str, str] = {
    "gpudoctor": "",
    "__main__": "",
    "diagnostic": "",
    "coverage": "",
    "trials": "",
    "errors": "",
    "record": "",
    "drafts": "",
    # Where the modules of the command line are found.
    "own_modules": "",
    # What is known of libraries, as data: for all who ask what a dotted name means.
    # A table of stubs that was read anew is kept for the next start.
    "manifest": "drafts",
    # Which formats may be asked for.
    "config": "report required_version",
    "required_version": "gpudoctor",
    # --- what a program is, on paper: no torch in `flow`, no syntax in anything up to `program` ---
    "lint.flow": "",
    "lint.domain": "lint.flow",
    # How a program is started, and what it says of that: for the files that start it.
    "lint.events.program_facts": "",
    "lint.events": "lint.domain lint.flow manifest",
    "lint.repair": "lint.domain lint.events manifest",
    # What happened, which ranks came there, and what rules may ask of it.
    "lint.program": "*values lint.source.project_answers manifest",
    # What rules of several families ask of a program.
    "lint.questions": "*values lint.program manifest",
    # --- from files to trees ---
    # What is borrowed of the process, with a lock: who parses and who follows long chains of imports.
    "lint.source.process_state": "",
    "lint.source.size_limits": "",
    "lint.source.notebooks": "lint.source.process_state lint.source.size_limits",
    # What a program may ask of its project, and who answers.
    "lint.source.project_answers": "",
    # How to look through a syntax tree, for all who do.
    "lint.source.syntax_walk": "",
    # Records of what setting files say, for those that read them and those that make values of it.
    "lint.source.group_options": "",
    "lint.source": (
        "drafts lint.source.group_options lint.source.notebooks lint.source.process_state lint.source.project_answers "
        "lint.source.size_limits lint.source.syntax_walk manifest"
    ),
    "lint.suppression": "lint.launchfiles lint.source rule",
    "lint.runtime.entry_result": "lint.events.program_facts lint.source",
    # What a session remembers is a part of what it asks.
    "lint.runtime.result_memory": "lint.runtime.entry_result lint.source",
    "lint.request": "lint.events.program_facts lint.runtime.result_memory rule",
    # Files that start programs know of programs no more than these facts.
    "lint.launchfiles": "lint.domain lint.events.program_facts lint.source manifest",
    "lint.runtime.workers": "",
    # What a file is, and which of its definitions matter, is asked before and while a program is followed.
    "lint.discovery": (
        "config lint.launchfiles lint.request lint.runtime lint.runtime.workers lint.source lint.source.notebooks "
        "lint.source.size_limits lint.source.syntax_walk manifest"
    ),
    "lint.runtime": "gpudoctor lint.events.program_facts lint.request lint.runtime.entry_result lint.source manifest",
    # --- from trees to events ---
    # What a model may ask and do, what containers hold, and what the evaluation raises.
    "lint.interface": "*values manifest",
    "lint.analyses": "*values lint.interface lint.source.syntax_walk manifest",
    "lint.library": (
        "*values lint.analyses lint.interface lint.library.library_names lint.source.group_options "
        "lint.source.syntax_walk manifest"
    ),
    # The one list of all that knows libraries, and questions about their names.
    "lint.library.register": "lint.interface manifest",
    "lint.library.library_names": "manifest",
    # Python and nothing else: no model, no analysis.
    "lint.interp": (
        "*values lint.discovery lint.events.program_facts lint.interface lint.library.library_names "
        "lint.library.register lint.program lint.source lint.source.process_state lint.source.project_answers "
        "lint.source.syntax_walk manifest"
    ),
    # By which error a rank notices that another has ended.
    "run.recording": "logs.error_texts",
    "rule": "lint.events lint.launchfiles lint.program run.recording",
    "card_index": "gpudoctor drafts rule",
    "page_examples": "",
    "registry": "card_index page_examples rule",
    # --- from events to findings ---
    "lint.fix": "*values lint.program lint.repair lint.source lint.source.process_state lint.source.syntax_walk",
    # Whether a finding is sure hangs on the values behind it.
    "lint.results": (
        "*values config lint.discovery lint.events.program_facts lint.fix lint.program lint.questions "
        "lint.request lint.runtime.entry_result lint.source lint.source.size_limits lint.source.syntax_walk "
        "lint.suppression manifest rule"
    ),
    "lint.entries": (
        "*values lint.discovery lint.events.program_facts lint.fix lint.interp lint.launchfiles lint.program "
        "lint.request lint.results lint.runtime lint.runtime.entry_result lint.runtime.workers lint.source "
        "lint.source.process_state registry rule"
    ),
    "lint.pipeline": (
        "lint.discovery lint.entries lint.request lint.results lint.runtime lint.runtime.entry_result lint.source"
    ),
    "lint.lint_options": "config lint.request lint.runtime registry",
    # Which findings count: a baseline knows them by what services know them by, and comments silence them.
    "triage": "drafts lint.fix_loop lint.request lint.results lint.source lint.suppression plain report",
    # The door for those who call from Python.
    "api": (
        "config lint.fix_loop lint.lint_options lint.pipeline lint.program lint.request lint.runtime.result_memory "
        "lint.source lint.source.process_state registry rule triage"
    ),
    # What packs of rules import. The built-in rules take from it what only mypy reads.
    "api.pack": (
        "*values lint.events.program_facts lint.launchfiles lint.program lint.questions lint.repair run.recording"
    ),
    # A rule itself says what its fix may bring to light.
    "lint.fix_loop": "lint.fix lint.pipeline lint.request lint.source registry rule",
    # Where the pages are: one setting, for all who link to them.
    "page_address": "",
    # An editor's: it builds on the door for those who call from Python.
    "server": "gpudoctor api config lint.source lint.source.notebooks page_address registry report rule triage",
    "lint": "",
    # Also what is made for pages and services must show what others wrote, and never obey it.
    "visible": "",
    # A log that explains the rules shows their pages.
    "report": "gpudoctor manifest page_address plain registry rule trials visible",
    "plain": "",
    "html": "",
    "ranks": "",
    "probe": "html plain ranks",
    # What makes a program believe in GPUs: loaded in its processes only, and known to nobody but who starts it there.
    "virtual": "",
    # Which collectives there are, and what an error means that no rule has seen coming.
    "run": "logs.error_texts manifest plain ranks registry rule run.recording virtual",
    # What a job left behind is read without torch and without its program.
    "logs.error_texts": "",
    "logs": "logs.error_texts",
    # With which error a mistake ends stands in its rule.
    "logs.declared_texts": "registry rule",
    "logs.log_report": "logs logs.declared_texts logs.error_texts",
    "run.page": "html page_address report run run.recording",
    # `lint.flow` gives rules the types of conditions, nothing that acts.
    "gpudoctor_rules": "*values api.pack lint.launchfiles lint.questions lint.repair rule run.recording",
}
"""The parts that each part may import besides."""
LATE = {
    # Few programs look a name up that a setting gives, or a module that is not found then.
    "gpudoctor.lint.library.dynamic_import",
    "gpudoctor.lint.discovery.content_signs",
    "gpudoctor.lint.discovery.walk",
    # Most settings files are for any version.
    "gpudoctor.required_version",
    # What a report says of a program; where all is known already, no event is looked at.
    "gpudoctor.lint.events.knowledge",
    "gpudoctor.lint.questions.loop_rounds",
    "gpudoctor.lint.entries.analyze",
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
    "gpudoctor.lint.discovery.launch_starts",
    "gpudoctor.lint.entries.launch_rules",
    "gpudoctor.lint.launchfiles.reading",
    "gpudoctor.lint.launchfiles.charts",
    "gpudoctor.lint.launchfiles.dockerfile",
    "gpudoctor.lint.launchfiles.ini_commands",
    "gpudoctor.lint.launchfiles.python_commands",
    "gpudoctor.lint.launchfiles.python_values",
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
    # Most programs match no patterns.
    "gpudoctor.lint.interp.patterns",
    # Most programs import no star of a module that was not executed.
    "gpudoctor.lint.interp.exports",
    # Most programs have a value for each name that they ask for.
    "gpudoctor.lint.interp.unbound_names",
    # Most models have what is asked of them.
    "gpudoctor.lint.library.dropped_layers",
    # Most programs name their classes themselves.
    "gpudoctor.lint.source.hydra_configs",
    "gpudoctor.lint.source.setting_files",
    # Few programs must be given a settings file, and fewer one of Python.
    "gpudoctor.lint.library.written_settings",
    "gpudoctor.lint.source.python_settings",
    "gpudoctor.lint.source.defined_names",
    "gpudoctor.lint.source.usual_settings",
    # Most programs import no zoo of models.
    "gpudoctor.lint.interp.registries",
    # Most programs train in all of their files that do.
    "gpudoctor.lint.interp.unreached_training",
    # Few rules that find something ask what else a program names.
    "gpudoctor.lint.interp.reachable_code",
    # Most projects have no notebooks.
    "gpudoctor.lint.discovery.written_files",
    "gpudoctor.lint.source.notebooks.write",
    "gpudoctor.lint.source.notebooks.shell_lines",
    "gpudoctor.lint.source.notebooks.joined_cells",
    "gpudoctor.lint.source.notebooks.ipynb",
    "gpudoctor.lint.source.notebooks.magics",
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
"""Our own modules that are imported inside of functions: where an earlier run has done its work, most of the start-up
time would be for nothing."""
