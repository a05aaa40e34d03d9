"""llama.cpp's server on loopback, from the package xllamacpp: serve.py MODEL.gguf PORT THREADS"""
import sys
import time

import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path, parameters.port, parameters.hostnames = sys.argv[1], int(sys.argv[2]), ["127.0.0.1"]
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = int(sys.argv[3])
parameters.n_ctx, parameters.n_parallel, parameters.use_jinja = 16384, 2, True
parameters.n_gpu_layers, parameters.warmup = 0, False
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
while True:
    time.sleep(3600)
