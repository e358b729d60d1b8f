"""A provider for a model behind a gateway of your own; here the gateway is any function from a prompt to an answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ragspine_assets.llm import ChatReply, ProviderError


@dataclass(frozen=True)
class GatewayProvider:
    """Asks the gateway, and says what it cost where the gateway tells.

    Attributes:
        ask: takes the conversation as one text and returns the answer.
        model: the model's name, under which answers are kept: the same text is not asked about twice.
    """

    ask: Callable[[str], str]
    model: str = "gateway:our-model"

    def chat(self, messages: Sequence[Mapping[str, str]], **options: object) -> ChatReply:
        """Return the answer; ``options`` (max_tokens, temperature, response_schema) are for gateways that know them."""
        del options
        try:
            text = self.ask("\n\n".join(message["content"] for message in messages))
        except (ConnectionError, TimeoutError) as error:
            # The name is counted and shown; the message may hold nothing of question or answer.
            reason = "timeout" if isinstance(error, TimeoutError) else "unreachable"
            raise ProviderError("the gateway does not answer", reason) from None
        return ChatReply(text, self.model)
