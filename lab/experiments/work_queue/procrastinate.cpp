// SPDX-License-Identifier: Apache-2.0
// procrastinate, in Python: the programs of procrastinate_queue.py, with psycopg.
#include <lab/experiments/work_queue/python.hpp>

int main(int argc, char** argv) {
  return lab::work_queue::python_main(
      argc, argv, "procrastinate_queue.py", {"procrastinate", "psycopg-binary", "uvloop"},
      "select count(*) from procrastinate_jobs where status in ('todo', 'doing')");
}
