"""What everything else is built on: errors, files, memory, pictures."""
