"""Opens a session with OpenAI's realtime client for realtime_test.go, sends an event, prints the text of the answer, and closes when stdin ends."""
import sys

import openai

base = sys.argv[1]
client = openai.OpenAI(base_url=base + "/v1", websocket_base_url=base.replace("http:", "ws:") + "/v1", api_key="none")
with client.realtime.connect(model="m") as session:
    session.conversation.item.create(item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]})
    print(session.recv().delta, flush=True)
    sys.stdin.read()
