"""Create the bucket that the brokers of compose.yaml share, unless it is there.

    python create_bucket.py ENDPOINT REGION BUCKET        for example http://s3:7070 us-east-1 log

Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
"""

import sys
from typing import Any

from botocore.config import Config
from botocore.session import Session


def create_bucket(endpoint: str, region: str, bucket: str) -> None:
    """Create the bucket; one that is ours already is no error.

    Raises:
        ClientError: the server refused.
        BotoCoreError: the server does not answer, or there are no credentials.
    """
    client: Any = Session().create_client(
        "s3",
        region_name=region,
        endpoint_url=endpoint,
        config=Config(s3={"addressing_style": "path"}),
    )
    try:
        client.create_bucket(Bucket=bucket)
    except client.exceptions.BucketAlreadyOwnedByYou:
        print(f"bucket {bucket} is there already")  # noqa: T201 - this is a program
    finally:
        client.close()


if __name__ == "__main__":
    create_bucket(*sys.argv[1:])
