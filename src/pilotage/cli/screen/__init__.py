"""What reaches a person: text in tones, on a terminal or without one."""
