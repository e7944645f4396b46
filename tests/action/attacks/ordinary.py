"""What honest agents do that takes places of everybody: processes that share, temporary files,
databases."""

import multiprocessing
import os
import sqlite3
import tempfile
from multiprocessing import shared_memory


def work(lock, queue):
    with lock:
        queue.put(os.getpid())


context = multiprocessing.get_context("fork")
lock, queue = context.Lock(), context.Queue()
children = [context.Process(target=work, args=(lock, queue)) for _ in range(3)]
for child in children:
    child.start()
assert {queue.get(timeout=20) for _ in children} == {child.pid for child in children}
for child in children:
    child.join()
block = shared_memory.SharedMemory(create=True, size=16)
block.close()
block.unlink()
with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as file:
    assert folder.startswith(os.environ["TMPDIR"])
    assert file.name.startswith(os.environ["TMPDIR"])
    with sqlite3.connect(folder + "/some.db") as database:
        database.execute("pragma temp_store = file")
        database.execute("create temp table other (x)")
        database.execute("create table some (x)")
        database.execute("insert into some values (1)")
print("works")
