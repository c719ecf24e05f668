"""Who watches live?"""
