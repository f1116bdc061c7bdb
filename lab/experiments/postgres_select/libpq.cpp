// SPDX-License-Identifier: Apache-2.0
// libpq: pipeline mode, with an implicit transaction for each statement.
#include <lab/experiments/postgres_select/libpq_callers.hpp>

int main(int argc, char** argv) {
  using lab::postgres::sync_point;
  return lab::postgres::contender_main<lab::postgres::libpq_client<sync_point::each>>(
      argc, argv, {{"libpq", lab::postgres::libpq_version()}});
}
