"""Sends one call each of many OpenAI clients at once for comeback_test.go, and prints of each attempt when it was sent, its status and its retry-after, in seconds."""
import json
import sys
import threading
import time

import httpx2 as httpx
import openai

base, count = sys.argv[1], int(sys.argv[2])
began = time.monotonic()
attempts = [[] for _ in range(count)]


def call(mine):
    def sent(request):
        mine.append({"at": time.monotonic() - began})

    def answered(response):
        mine[-1].update(ended=time.monotonic() - began, status=response.status_code, after=float(response.headers.get("retry-after", "0")))
    http = httpx.Client(event_hooks={"request": [sent], "response": [answered]}, timeout=60)
    client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=10, http_client=http)
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])


threads = [threading.Thread(target=call, args=(a,)) for a in attempts]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(json.dumps(attempts))
