"""Which files a request is about, and what each of them is: found, selected, classified, before any is executed."""
