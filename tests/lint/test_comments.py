"""Code without what is said about it."""

from __future__ import annotations

import pytest

from gpudoctor.lint.comments import without_comments

WRITTEN = '''"""Trains in BF16."""
import torch  # for BF16

NAME = "# no comment"


def train():  # BF16
    """Uses BF16,

    on all GPUs."""
    text = """BF16 # in a text"""
    """said"""  # BF16
    print(f"# {NAME}", "a" "b")  # BF16
    return text
'''
LEFT = '''
import torch  

NAME = "# no comment"


def train():  
    
    text = """BF16 # in a text"""
      
    print(f"# {NAME}", "a" "b")  
    return text
'''


def test_comments_and_documentation_are_left_out() -> None:
    assert without_comments(WRITTEN) == LEFT


@pytest.mark.parametrize("text", ["", "x = 1", "x = (", "'''", "\tx\n  y", "x = 'BF16'\n"])
def test_all_else_stays(text: str) -> None:
    assert without_comments(text) == text
