// Where W'[n][k] lies in the packed weights.
//
// W' is cut into blocks of 16 rows × 32 columns, stored one after another, k fastest, 1024
// bytes each: so the 16 rows of a tile are one contiguous run of K, and any run of columns
// in multiples of 32 is one bulk copy. Inside a block lie two mma A fragments of 512 bytes
// in lane order, so that a lane fetches its four registers with one 16-byte access and a
// warp touches every bank once.
//
// The columns of a block are dealt to the fragments' k positions in the order in which a
// lane that holds 8 neighbouring elements of X would use them: lane t of a quad owns
// columns 8t .. 8t+7. A product does not care for the order of k as long as both operands
// agree, and in this order X goes from global memory to B fragments in 16-byte loads
// without shared memory or shuffles.
#pragma once

namespace tenon::device::small_m {

inline constexpr int kTileRows = 16;      // rows of W' (columns of Y) in a tile
inline constexpr int kGroupColumns = 32;  // columns of K that a lane's 16-byte load of X serves
inline constexpr int kGroupBytes = kTileRows * kGroupColumns * 2;

// K as it is stored: padded with zeros to a multiple of 64.
__host__ __device__ constexpr int padded_columns(int k) { return (k + 63) / 64 * 64; }

// N as it is stored when packed: padded with zero rows to whole tiles.
__host__ __device__ constexpr int padded_rows(int n) {
  return (n + kTileRows - 1) / kTileRows * kTileRows;
}

// Index of element (n, k) in the packed array of padded_rows(N) · padded_columns(K) elements.
__host__ __device__ constexpr long long packed_index(int n, int k, int k_padded) {
  const int tile = n / kTileRows, r = n % kTileRows;
  const int group = k / kGroupColumns, c = k % kGroupColumns;
  const int lane = r % 8 * 4 + c / 8;
  const int step = c % 8 / 4;             // which of the two products of 16 columns
  const int reg = c % 4 / 2 * 2 + r / 8;  // a[0 .. 3]
  const long long block = static_cast<long long>(tile) * (k_padded / kGroupColumns) + group;
  return (block * 2 + step) * 256 + lane * 8 + reg * 2 + c % 2;
}

}  // namespace tenon::device::small_m
