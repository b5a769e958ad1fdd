"""A stand-in for a model API: it streams every chat completion for three seconds. Usage: model.py [PORT [SECONDS]]"""
import http.server
import json
import sys
import time

SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 3
WORDS = "I am a stand-in for a model and speak for three seconds so that you can see others wait".split()


class Model(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for word in WORDS:
            choice = {"index": 0, "delta": {"content": word + " "}, "finish_reason": None}
            event = {"object": "chat.completion.chunk", "model": "stand-in", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
            time.sleep(SECONDS / len(WORDS))
        self.wfile.write(b"data: [DONE]\n\n")


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass  # the client left


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
    host = "127.0.0.1" if len(sys.argv) > 1 else "0.0.0.0"
    Server((host, port), Model).serve_forever()
