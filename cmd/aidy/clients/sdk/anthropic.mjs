// The @anthropic-ai/sdk package.
import Anthropic from '@anthropic-ai/sdk';
import { abandoned, address, call, run, schema, tools } from './job.mjs';

const connect = (job) => new Anthropic({ ...address(job, { apiKey: job.key, baseURL: job.base }), maxRetries: job.retries });

function messages(job) {
  const content = [{ type: 'text', text: job.prompt }];
  if (job.image) content.push({ type: 'image', source: { type: 'base64', media_type: 'image/png', data: job.image } });
  return [{ role: 'user', content }];
}

async function answer(job, body) {
  const m = connect(job).messages;
  body = { model: job.model, max_tokens: 512, system: job.system, ...body };
  const message = job.stream ? await m.stream(body).finalMessage() : await m.create(body);
  return { message, usage: { input: message.usage.input_tokens, output: message.usage.output_tokens } };
}

const textOf = (m) => m.content.filter((b) => b.type === 'text').map((b) => b.text).join('');

await run({
  async text(job) {
    const { message, usage } = await answer(job, { messages: messages(job) });
    return { text: textOf(message), usage };
  },

  async tools(job) {
    const history = messages(job);
    const calls = [];
    for (;;) {
      const { message, usage } = await answer(job, {
        messages: history,
        ...(job.think && { max_tokens: 2048, thinking: { type: 'enabled', budget_tokens: 1024 } }),
        tools: tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters })),
      });
      history.push({ role: 'assistant', content: message.content });
      if (message.stop_reason !== 'tool_use') return { text: textOf(message), calls, usage };
      history.push({
        role: 'user',
        content: message.content
          .filter((b) => b.type === 'tool_use')
          .map((b) => ({ type: 'tool_result', tool_use_id: b.id, content: call(calls, b.name, b.input) })),
      });
    }
  },

  async structured(job) {
    const { message, usage } = await answer(job, {
      messages: messages(job),
      output_config: { format: { type: 'json_schema', schema } },
    });
    const text = textOf(message);
    return { text, value: JSON.parse(text), usage };
  },

  abort: (job) =>
    abandoned(job, async function* (signal) {
      const r = await connect(job).messages.create({ model: job.model, max_tokens: 512, stream: job.stream, messages: messages(job) }, { signal });
      if (!job.stream) return yield textOf(r);
      for await (const event of r) yield event.delta?.text ?? '';
    }),
});
