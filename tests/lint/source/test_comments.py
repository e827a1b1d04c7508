"""Code without what is said about it."""

from __future__ import annotations

import ast

import pytest

from gpudoctor.lint.source.comments import without_comments

WRITTEN = '''"""Trains in BF16."""
import torch  # for BF16

NAME = "# no comment"


def train():  # BF16
    """Uses BF16,

    on all GPUs."""
    text = """BF16 # in a text"""
    """said"""  # BF16
    "said " 'once' r"more"
    print(f"# {NAME}", "a" "b")  # BF16
    print(
        "not said",  # BF16
        'it\\'s # a text', "\\\\",  # BF16
        \'\'\'a text "#", \\\'\'\' and # more\'\'\',
    )
    match text:
        case "ü": "ü said"; x = "ü"  # BF16
    return text
'''
LEFT = '''
import torch  

NAME = "# no comment"


def train():  
    
    text = """BF16 # in a text"""
      
    
    print(f"# {NAME}", "a" "b")  
    print(
        "not said",  
        'it\\'s # a text', "\\\\",  
        \'\'\'a text "#", \\\'\'\' and # more\'\'\',
    )
    match text:
        case "ü": ; x = "ü"  
    return text
'''


def test_comments_and_documentation_are_left_out() -> None:
    assert without_comments(WRITTEN, ast.parse(WRITTEN)) == LEFT


@pytest.mark.parametrize("text", ["", "x = 1", "x = 'BF16'\n", "x = '# \\\n#'\ny = '''\n#'''\n", "x = [\n'a']"])
def test_all_else_stays(text: str) -> None:
    assert without_comments(text, ast.parse(text)) == text
