import torch

from workloads.benching.data import contribution, expected_mean, wrong_elements


def test_the_mean_of_whole_numbers_is_known_to_the_bit() -> None:
    parts = torch.stack([contribution(3, rank, 50) for rank in range(9)])
    exact = parts.to(torch.int64).sum(0)
    assert expected_mean(3, 9, 50).tolist() == (exact.float() / 9).tolist()


def test_ranks_contribute_different_whole_numbers_within_1000() -> None:
    one, two = contribution(1, 0, 1000), contribution(1, 1, 1000)
    assert not torch.equal(one, two)
    assert torch.equal(one, one.round())
    assert float(one.abs().max()) <= 1000


def test_one_bit_more_is_one_element_wrong() -> None:
    expected = expected_mean(1, 3, 10)
    result = expected.clone()
    result[4] = torch.nextafter(result[4], torch.tensor(torch.inf))
    assert wrong_elements(result, expected) == 1
    assert wrong_elements(expected, expected) == 0
