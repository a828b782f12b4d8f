"""The grader of the book's exercises: courses, hand-ins, marks and feedback.

Folders:
    course/     courses and assignments made of the book's exercises, and synthetic classes
    notebooks/  which notebooks were handed in, and what their cells define
    grading/    rounds of grading: judging, marks, feedback
    sandbox/    where student code runs, and the limits on what it may use
    protocol/   the process in the sandbox and how the grader talks to it; student code can see
                this folder and no other
"""
