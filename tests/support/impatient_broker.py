"""A broker that waits for no more than a second for the end of another with its address."""

from broker import main, membership

if __name__ == "__main__":
    membership.IDENTITY_S = 1.0  # type: ignore[misc]
    main.main()
