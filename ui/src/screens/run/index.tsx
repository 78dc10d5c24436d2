import { Screen } from '../../components/Screen'

export default function Run() {
  return (
    <Screen title="Run">
      <p className="hb-muted">One run: its times, its attempts, its log.</p>
    </Screen>
  )
}
