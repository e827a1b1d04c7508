"""What rules of several families ask of a program that was executed: about its loops, and about its gradients."""
