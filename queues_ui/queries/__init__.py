"""What is read for a screen or an answer, and in what form?"""
