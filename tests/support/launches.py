"""Starts of programs, in one line each."""

from gpudoctor.lint.launchfiles.start import ProgramStart


def shown(launch: ProgramStart) -> str:
    """Launcher, options, script and arguments, with `?` for what may be several words."""
    options = [f"{each.name}={each.value.shown if each.value else ''}" for each in launch.options.values()]
    words = [launch.script, *launch.arguments] if launch.script is not None else []
    tail = [word.shown + ("?" if word.open else "") for word in words]
    return " ".join([launch.launcher.value, *options, "|", *tail])
