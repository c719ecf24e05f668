"""How does one command start every process, keep it running and leave none behind?"""
