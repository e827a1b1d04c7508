"""The rules that come with gpudoctor: a folder for each family, a file for each rule."""
