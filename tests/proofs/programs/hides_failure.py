# holds: failure-hidden "ValueError: no such luck"; finishes; prints "no such luck"
# fails: failure-hidden "another text"; crash; hang
try:
    raise ValueError("no such luck")
except ValueError as error:
    print(f"{type(error).__name__}: {error}")
