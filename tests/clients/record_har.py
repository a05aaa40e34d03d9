"""Records with mitmproxy, as a HAR file, what tests/integration/cassettes/tools.rs asks for.

UPSTREAM is the server to talk to, HAR the file to write.
"""

import asyncio
import json
import os
import urllib.request

from mitmproxy import options
from mitmproxy.tools.dump import DumpMaster

BODY = {"model": "m", "messages": [{"role": "user", "content": "Grüße, \"quoted\"\nand \U0001f600"}]}


def ask_all(port):
    proxy = urllib.request.ProxyHandler({"http": f"http://127.0.0.1:{port}"})
    opener = urllib.request.build_opener(proxy)
    url = os.environ["UPSTREAM"] + "/chat/completions?a=1&b=%C3%BC"
    for more, headers in [({}, {"authorization": "Bearer sk-of-nobody-in-particular"}), ({"stream": True}, {}), ({"packed": True}, {"accept-encoding": "gzip"})]:
        request = urllib.request.Request(url, json.dumps({**BODY, **more}).encode(), {"content-type": "application/json", **headers})
        with opener.open(request) as response:
            response.read()


async def main():
    master = DumpMaster(options.Options(listen_host="127.0.0.1", listen_port=0), with_termlog=False, with_dumper=False)
    master.options.update(hardump=os.environ["HAR"])
    running = asyncio.create_task(master.run())
    server = master.addons.get("proxyserver")
    while not server.listen_addrs():
        await asyncio.sleep(0.01)
    await asyncio.to_thread(ask_all, server.listen_addrs()[0][1])
    master.shutdown()
    await running


asyncio.run(main())
