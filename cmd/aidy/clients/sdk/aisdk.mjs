// The AI SDK. The first argument chooses the provider package and, for OpenAI, the
// protocol.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogle } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, isStepCount, jsonSchema, Output, streamText, tool } from 'ai';
import { abandoned, address, call, run, schema, tools } from './job.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;

const models = {
  'openai-chat': (job) => createOpenAI(address(job, { apiKey: job.key, baseURL: job.base + '/v1' })).chat(job.model),
  'openai-responses': (job) => createOpenAI(address(job, { apiKey: job.key, baseURL: job.base + '/v1' })).responses(job.model),
  anthropic: (job) => createAnthropic(address(job, { apiKey: job.key, baseURL: job.base + '/v1' }))(job.model),
  google: (job) => createGoogle({ apiKey: job.key, baseURL: job.base + '/v1beta' })(job.model),
};

function options(job) {
  const content = [{ type: 'text', text: job.prompt }];
  if (job.image) content.push({ type: 'file', mediaType: 'image/png', data: job.image });
  return {
    model: models[process.argv[2]](job),
    maxRetries: job.retries,
    maxOutputTokens: job.think ? 2048 : 512,
    instructions: job.system,
    messages: [{ role: 'user', content }],
    // Nothing is stored anywhere, so turns are sent again as they were.
    providerOptions: {
      openai: { store: false, ...(job.think && process.argv[2] === 'openai-responses' && { reasoningEffort: 'low', reasoningSummary: 'auto' }) },
      ...(job.think && {
        anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } },
        google: { thinkingConfig: { includeThoughts: true, thinkingBudget: 1024 } },
      }),
    },
  };
}

async function generate(job, more) {
  let r;
  if (job.stream) {
    let failure;
    r = streamText({ ...options(job), ...more, onError: ({ error }) => { failure ??= error; } });
    await r.consumeStream();
    if (failure) throw failure.lastError ?? failure;
  } else {
    try {
      r = await generateText({ ...options(job), ...more });
    } catch (e) {
      throw e.lastError ?? e;
    }
  }
  const usage = await r.usage;
  return { text: await r.text, usage: { input: usage.inputTokens, output: usage.outputTokens }, r };
}

await run({
  async text(job) {
    const { text, usage } = await generate(job, {});
    return { text, usage };
  },

  async tools(job) {
    const calls = [];
    const { text, r } = await generate(job, {
      stopWhen: isStepCount(8),
      tools: Object.fromEntries(
        tools.map(({ name, description, parameters }) => [
          name,
          tool({ description, inputSchema: jsonSchema(parameters), execute: async (args) => call(calls, name, args) }),
        ]),
      ),
    });
    const last = (await r.steps).at(-1).usage;
    return { text, calls, usage: { input: last.inputTokens, output: last.outputTokens } };
  },

  async structured(job) {
    const { text, usage, r } = await generate(job, { output: Output.object({ schema: jsonSchema(schema) }) });
    return { text, value: await r.output, usage };
  },

  abort: (job) =>
    abandoned(job, async function* (abortSignal) {
      if (!job.stream) return yield (await generateText({ ...options(job), abortSignal })).text;
      yield* streamText({ ...options(job), abortSignal }).textStream;
    }),
});
