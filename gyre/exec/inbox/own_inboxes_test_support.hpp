// SPDX-License-Identifier: Apache-2.0
// gyre's own inboxes, with segments of several sizes, for typed tests.
#pragma once

#include <gyre/exec/inbox/fifo.hpp>
#include <gyre/exec/inbox/sharded.hpp>

#include <gtest/gtest.h>

namespace gyre::inbox::suite {

using fifo_inboxes = ::testing::Types<fifo, basic_fifo<2>, basic_fifo<4>, basic_fifo<7>>;
using sharded_inboxes = ::testing::Types<sharded, basic_sharded<3>>;

}  // namespace gyre::inbox::suite
