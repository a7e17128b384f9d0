"""A broker that takes its S3 store to be away when it has not answered for two seconds, not 15."""

from broker import main
from storage.objects.s3_tries import S3Tries
from storage.objects.store_traffic import StoreTraffic

DEADLINE_S = 2.0

if __name__ == "__main__":
    begin = S3Tries.__init__

    def begin_hastily(tries: S3Tries, _: float, traffic: StoreTraffic) -> None:
        begin(tries, DEADLINE_S, traffic)

    S3Tries.__init__ = begin_hastily  # type: ignore[assignment,method-assign]
    main.main()
