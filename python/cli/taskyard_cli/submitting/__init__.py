"""Tasks are made: from the options of a command line to what the contract takes, once or for every worker."""
