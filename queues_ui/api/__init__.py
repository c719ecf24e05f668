"""What can be asked and told over HTTP?"""
