"""What is trained: the small linear net, the CIFAR-10 network of the articles, and a transformer block."""
