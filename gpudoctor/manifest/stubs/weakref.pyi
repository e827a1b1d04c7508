"""References that keep nothing alive: who has one has the object."""

from gpudoctor.manifest.effects import followed

@followed()
def proxy(object, callback=None):
    return object

@followed()
def ref(object, callback=None):
    return lambda: object
