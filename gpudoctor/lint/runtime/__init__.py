"""What a lint keeps and shares: results from run to run, processes to work in, memory."""
