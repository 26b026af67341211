"""What runs on islands: training, collectives and traffic."""
