"""Rules about the files and comments that gpudoctor itself reads."""
