"""Makes calls with the real clients, for cmd/headgate/clients_test.go: the name of one in a line on stdin; on stdout its
texts as they come, a JSON line each, and then {"end": true}, or {"error": what went wrong}."""
import json
import sys

import anthropic
import boto3
import botocore.config
import grpc
import ollama
import openai

ADDRESS, UPSTREAM = sys.argv[1:]
BASE = "http://" + ADDRESS
PROFILE = "arn:aws:bedrock:us-east-1:1:inference-profile/us.claude"
HELLO = [{"role": "user", "content": "hello"}]


def openai_client():
    return openai.OpenAI(
        base_url=BASE + "/v1", websocket_base_url=f"ws://{ADDRESS}/v1", api_key="none", max_retries=0, timeout=30
    )


def openai_plain():
    yield openai_client().chat.completions.create(model="m", messages=HELLO).choices[0].message.content


def openai_stream():
    for chunk in openai_client().chat.completions.create(model="m", messages=HELLO, stream=True):
        yield chunk.choices[0].delta.content


def openai_realtime():
    with openai_client().realtime.connect(model="m") as session:
        session.conversation.item.create(
            item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
        )
        yield session.recv().delta
        yield session.recv().delta


def anthropic_messages(stream):
    client = anthropic.Anthropic(base_url=BASE, api_key="none", max_retries=0, timeout=30)
    return client.messages.create(model="m", max_tokens=16, messages=HELLO, stream=stream)


def anthropic_plain():
    yield anthropic_messages(False).content[0].text


def anthropic_stream():
    for event in anthropic_messages(True):
        if event.type == "content_block_delta":
            yield event.delta.text


def ollama_plain():
    yield ollama.Client(host=BASE).chat(model="m", messages=HELLO).message.content


def ollama_stream():
    for part in ollama.Client(host=BASE).chat(model="m", messages=HELLO, stream=True):
        yield part.message.content


def bedrock():
    return boto3.client(
        "bedrock-runtime", endpoint_url=BASE, region_name="us-east-1",
        aws_access_key_id="id", aws_secret_access_key="secret",
        config=botocore.config.Config(retries={"total_max_attempts": 1}),
    )


def sign_for_upstream(request, **_):
    """Has the signature cover the host that the gateway puts into the request."""
    request.headers["Host"] = UPSTREAM


def bedrock_host():
    client = bedrock()
    client.meta.events.register("before-sign", sign_for_upstream)
    answer = client.converse(modelId=PROFILE, messages=[{"role": "user", "content": [{"text": "hello"}]}])
    yield answer["output"]["message"]["content"][0]["text"]


def bedrock_plain():
    yield json.loads(bedrock().invoke_model(modelId=PROFILE, body="{}")["body"].read())["text"]


def bedrock_stream():
    for event in bedrock().invoke_model_with_response_stream(modelId=PROFILE, body="{}")["body"]:
        yield event["chunk"]["bytes"].decode()


def bedrock_converse():
    messages = [{"role": "user", "content": [{"text": "hello"}]}]
    for event in bedrock().converse_stream(modelId=PROFILE, messages=messages)["stream"]:
        yield event["contentBlockDelta"]["delta"]["text"]


def grpc_plain(method="Ask"):
    with grpc.insecure_channel(ADDRESS) as channel:
        yield channel.unary_unary("/pkg.Model/" + method)(b"hello", timeout=30).decode()


def grpc_infer():
    return grpc_plain("Infer")


def grpc_stream():
    with grpc.insecure_channel(ADDRESS) as channel:
        for message in channel.unary_stream("/pkg.Model/Watch")(b"hello", timeout=30):
            yield message.decode()


def say(line):
    print(json.dumps(line), flush=True)


for name in sys.stdin:
    try:
        for text in globals()[name.strip()]():
            if text:
                say({"text": text})
        say({"end": True})
    except grpc.RpcError as e:
        say({"error": f"{e.code().name}: {e.details()}"})
    except Exception as e:
        say({"error": f"{type(e).__name__}: {e}"})
