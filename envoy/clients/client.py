"""Drives the official Python clients for clients_test.go: one JSON command a line on stdin, one JSON answer a line on stdout."""
import json
import sys

import anthropic
import openai


def openai_call(base, command):
    client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=command["retries"], timeout=30)
    return client, lambda stream: client.chat.completions.create(
        model=command["model"], messages=[{"role": "user", "content": "hello"}], stream=stream, extra_query=command["query"]
    )


def anthropic_call(base, command):
    client = anthropic.Anthropic(base_url=base, api_key="none", max_retries=command["retries"], timeout=30)
    return client, lambda stream: client.messages.create(
        model=command["model"], max_tokens=16, messages=[{"role": "user", "content": "hello"}], stream=stream, extra_query=command["query"]
    )


def text_of(part):
    """The text of a chat completion or its chunk, a message, or a message's event; None if it has none."""
    if isinstance(part, openai.types.chat.ChatCompletion):
        return part.choices[0].message.content
    if isinstance(part, openai.types.chat.ChatCompletionChunk):
        return part.choices[0].delta.content
    if isinstance(part, anthropic.types.Message):
        return part.content[0].text
    if part.type == "content_block_delta":
        return part.delta.text
    return None


def perform(call, command):
    if command["do"] == "plain":
        return {"texts": [text_of(call(False))]}
    texts = []
    with call(True) as stream:
        for part in stream:
            text = text_of(part)
            if text is not None:
                texts.append(text)
            if text and command["do"] == "cancel":
                break
    return {"texts": texts}


def main(base):
    calls = {"openai": openai_call, "anthropic": anthropic_call}
    for line in sys.stdin:
        command = json.loads(line)
        client, call = calls[command["client"]](base, command)
        try:
            answer = perform(call, command)
        except (openai.APIError, anthropic.APIError) as e:
            answer = {"error": type(e).__name__}
            if isinstance(e, (openai.APIStatusError, anthropic.APIStatusError)):
                answer.update(status=e.status_code, body=e.body, retryAfter=e.response.headers.get("retry-after"))
        print(json.dumps(answer), flush=True)
        if command["do"] != "cancel":
            client.close()


main(sys.argv[1])
