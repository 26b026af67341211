"""An ordinary DDP training, as PyTorch's tutorials have it; the back-end is an argument."""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def dataset() -> TensorDataset:
    torch.manual_seed(7)
    inputs = torch.randn(240, 6)
    return TensorDataset(inputs, (inputs.sum(dim=1) > 0).long())


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))


def main() -> None:
    dist.init_process_group(backend=sys.argv[1])
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    data = dataset()
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=20, sampler=sampler)
    loss = torch.zeros(())
    for epoch in range(6):
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
    dist.all_reduce(loss := loss.detach())
    weights = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    print(json.dumps({"loss": loss.item() / dist.get_world_size(), "weights": weights.tolist()}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
