"""Does every rank take part in what all must do together?"""
