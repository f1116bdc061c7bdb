// SPDX-License-Identifier: Apache-2.0
// pgqueuer, in Python: the programs of pgqueuer_queue.py, with asyncpg.
#include <lab/experiments/work_queue/python.hpp>

int main(int argc, char** argv) {
  return lab::work_queue::python_main(argc, argv, "pgqueuer_queue.py",
                                      {"pgqueuer", "asyncpg", "uvloop"},
                                      "select count(*) from pgqueuer");
}
