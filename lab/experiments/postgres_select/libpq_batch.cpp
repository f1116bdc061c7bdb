// SPDX-License-Identifier: Apache-2.0
// libpq: pipeline mode, with one implicit transaction for the statements of a turn, which fail
// together.
#include <lab/experiments/postgres_select/libpq_callers.hpp>

int main(int argc, char** argv) {
  using lab::postgres::sync_point;
  return lab::postgres::contender_main<lab::postgres::libpq_client<sync_point::turn>>(
      argc, argv, {{"libpq", lab::postgres::libpq_version()}});
}
